"""The questions of the chapters' exercises: by label, and by part. Right answers are no secret: pages show them."""

from . import ctc, gradients, hearing, machines, rnnt, short_way, together, variants

__all__ = ["EXERCISES", "find"]

#: Questions by the exercise's label and the part's name.
EXERCISES = {
    label: {question.name: question for question in questions}
    for module in (short_way, gradients, ctc, rnnt, together, variants, machines, hearing)
    for label, questions in module.EXERCISES.items()
}


def find(label):
    """The questions of the exercise with this label.

    Raises
    ------
    ValueError
        Naming what there is.
    """
    if label not in EXERCISES:
        raise ValueError(f"name = {label!r}; expected one of {', '.join(EXERCISES)}")
    return EXERCISES[label]
