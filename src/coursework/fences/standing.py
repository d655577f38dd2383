"""The fences around a submission: what each promises, and whether grading may begin. How they are built is elsewhere.

`make fences` tries each of them, and prints what stands here. `make grade` does the same before it grades, and stops if
one does not stand that ``ALLOW`` does not name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .fenced import Layers, layers_here
from .probing import possible

__all__ = ["ALLOW", "FENCES", "FencesDown", "Standing", "named", "proved", "required"]

#: What a submission cannot do, by the name of the fence.
FENCES = {
    "memory": "take more memory than it is given",
    "time": "take more processor time than it is given",
    "processes": "start another process or program, or threads without number",
    "disk": "fill the disk, or make files without number",
    "writing": "change a file outside its folder: what is in it, its mode, its times",
    "reading": "read a file that is not Python's or its own, or look at other processes",
    "network": "reach the network",
    "sockets": "speak to another program through a socket",
    "signals": "send a signal to the grader or another process",
    "leftovers": "leave anything for the next submission",
    "privileges": "hold or get privileges",
}
#: The environment variable that names fences which need not stand; ``make grade ALLOW=network,disk`` sets it.
ALLOW = "ALLOW"


class FencesDown(ValueError):
    """Submissions are not graded, since a fence does not stand."""


@dataclass(frozen=True)
class Standing:
    """What was found here: ``possible`` has, by fence, what a submission could do nevertheless."""

    layers: Layers
    possible: dict = field(default_factory=dict)

    @property
    def names(self):
        return [name for name, acts in self.possible.items() if not acts]

    @property
    def down(self):
        return [name for name, acts in self.possible.items() if acts]

    def __str__(self):
        lines = [f"{name:12} {'stands' if not acts else 'DOES NOT STAND: ' + '; '.join(acts)}"
                 for name, acts in self.possible.items()]
        return "\n".join([*lines, f"made of: {', '.join(self.layers.names) or 'limits only'}", *self.layers.remarks])


def named(text) -> list[str]:
    """The fences that a text names, with commas between them.

    Raises
    ------
    ValueError
        If it names something else.

    Examples
    --------
    >>> named("network, disk")
    ['network', 'disk']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FENCES:
            raise ValueError(f"{ALLOW} = {name!r}; expected names of fences, with commas between them, of: "
                             f"{', '.join(FENCES)}")
    return names


def proved(*, without=(), real=()) -> Standing:
    """Try every fence.

    Parameters
    ----------
    without : names of layers
        That are not used, though they may be there.
    real : paths
        Files of the course, which a submission must not be able to open.
    """
    layers = layers_here(without=without)
    return Standing(layers, possible(FENCES, layers, real=real))


def required(allow=None, *, without=(), real=()) -> Standing:
    """Try every fence, and do not go on if one does not stand that is not allowed to be down.

    Parameters
    ----------
    allow : names of fences
        That need not stand; by default those that the environment variable ALLOW names.
    without, real
        As for `proved`.

    Raises
    ------
    FencesDown
        With what a submission could do, and what to do about it.
    ValueError
        If a name is none of a fence.
    """
    allowed = named(os.environ.get(ALLOW, "")) if allow is None else named(",".join(allow))
    standing = proved(without=without, real=real)
    missing = [name for name in standing.down if name not in allowed]
    if missing:
        lines = [f"{name} (a submission could {FENCES[name]}). Tried and possible: {'; '.join(standing.possible[name])}"
                 for name in missing]
        raise FencesDown("\n".join([
            "nothing was graded, since these fences around submissions do not stand here:",
            *(f"  {line}" for line in lines), *(f"  {remark}" for remark in standing.layers.remarks),
            "On Linux install bubblewrap (apt-get install bubblewrap); elsewhere, or if that does not help, grade in "
            "the container of course/Containerfile. course/README.md says how.",
            f"To grade without them all the same, name what you accept: {ALLOW}={','.join(standing.down)}"]))
    return standing
