"""The questions of each assignment. They know the right answers: where submissions run, they are not importable."""

from . import ctc_alpha, ctc_beta, ctc_gradient, fastemit, find_the_bug, make_it_fast, own, port, rnnt_gradient
from .sealed import unsealed

__all__ = ["ASSIGNMENTS", "FILES", "find"]

#: Questions by assignment, in the order in which they are asked: those of the book, then those of each student's own.
ASSIGNMENTS = {
    name: {question.name: question for question in [*module.QUESTIONS, *unsealed(name, own.SEALED.get(name, []))]}
    for name, module in {
        "1_ctc_alpha": ctc_alpha,
        "2_ctc_beta": ctc_beta,
        "3_ctc_gradient": ctc_gradient,
        "4_rnnt_gradient": rnnt_gradient,
        "5_find_the_bug": find_the_bug,
        "6_make_it_fast": make_it_fast,
        "7_fastemit": fastemit,
        "8_port_a_loss": port,
    }.items()
}

#: Files that may be handed in beside the notebook, by assignment: their names, and the most bytes that they may have.
FILES = {"8_port_a_loss": {"results.json": 2_000_000, "results_own.json": 2_000_000}}


def find(assignment, name):
    """The question of this name.

    Raises
    ------
    ValueError
        Naming what there is.
    """
    if assignment not in ASSIGNMENTS:
        raise ValueError(f"assignment = {assignment!r}; expected one of {', '.join(ASSIGNMENTS)}")
    if name not in ASSIGNMENTS[assignment]:
        raise ValueError(f"name = {name!r}; expected one of {', '.join(ASSIGNMENTS[assignment])}")
    return ASSIGNMENTS[assignment][name]
