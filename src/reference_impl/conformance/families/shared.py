"""What the lists of mistakes share: words for where a mistake is made, changes of attributes, regions of a grid."""

from __future__ import annotations

__all__ = ["AT_FIRST", "AT_LAST", "BOTH", "FIRST_ROW", "GRADIENT", "LAST_ROW", "LOSS", "PLACES", "SWEEPS", "computed",
           "fixed", "plus"]

#: Where a mistake is made that is not in one of the sweeps, and where one that is.
BOTH, GRADIENT, LOSS = PLACES = "In loss and gradient: ", "In the gradient: ", "In the loss alone: "
SWEEPS = ("In alpha: ", "In alpha, with log Z from beta: ", "In beta: ", "In beta, with log Z from beta: ",
          "In alpha and beta: ")
#: Indices of an array (T, U+1).
AT_LAST, AT_FIRST = (-1, slice(None)), (0, slice(None))
FIRST_ROW, LAST_ROW = (slice(None), 0), (slice(None), -1)


def fixed(**values):
    """A change of a lattice or a grid: its attributes get these values."""
    def change(lattice):
        for name, value in values.items():
            setattr(lattice, name, value)
    return change


def computed(**how):
    """The same, with what is computed of the lattice or grid as it was: ``how(lattice)``."""
    return lambda lattice: fixed(**{name: made(lattice) for name, made in how.items()})(lattice)


def plus(letter, by):
    """An index with an offset, in words."""
    return f"{letter} {'+' if by > 0 else '-'} {abs(by)}" if by else letter
