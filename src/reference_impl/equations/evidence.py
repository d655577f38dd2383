"""Whether a check is evidence: each source of computed numbers in turn returns random ones, and the sides must differ.

A source is a function that computes a test's evidence, and is marked so by :func:`computed`: the mass of all paths, a
forward variable, an occupancy, a list of paths, a derivative. :func:`examine` runs a test as it is, and then once more
for each source it called, with random numbers of the same shape and type in place of what that source returned. If the
two sides change and still agree, the check is algebra as far as this source goes: it would pass whatever was computed.
It also asks which sizes and ends of ranges the cases have (:class:`.Quantities`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .checking import EquationError
from .quantities import Coverage, Quantities
from .sources import Compared, Run, run_as

__all__ = ["Examined", "examine"]


NONE = Quantities()
NO_SOURCE = "no source"  # declared by a check whose two sides both compute from free numbers


@dataclass(frozen=True)
class Examined:
    """A call of ``check_equation``: what it compared, and what is known about its evidence and its cases.

    ``sources`` has the kind of each source that the test called, ``outcomes`` what random numbers from it did:
    "differ" (the check sees this source), "agree" (the sides changed and still agree), "unused" (nothing changed), or
    the name of the error that ended the run before both sides were there.
    """

    compared: Compared
    sources: dict[str, str]
    outcomes: dict[str, str]
    coverage: Coverage

    @property
    def label(self) -> str:
        return self.compared.check.label

    def findings(self) -> list[str]:
        """What is wrong with the check."""
        algebraic = dict(self.compared.check.algebraic)
        declared_none = algebraic.pop(NO_SOURCE, None) is not None
        agreeing = [source for source, outcome in self.outcomes.items() if outcome == "agree"]
        seen = [source for source, outcome in self.outcomes.items() if outcome not in ("agree", "unused")]
        unseen = [f'{self.label}: no source of computed numbers matters to it; mark what computes its evidence, or '
                  f'declare algebraic={{"{NO_SOURCE}": reason}}'] if not (seen or agreeing or declared_none) else []
        vain = [f"{self.label}: declared to have no source, but {source} is one"
                for source in [*seen, *agreeing] if declared_none]
        return [
            *unseen, *vain,
            *(f"{self.label}: the sides agree whatever {source} returns" for source in agreeing
              if source not in algebraic),
            *(f"{self.label}: declared algebraic, but the sides do not agree whatever {source} returns"
              for source in algebraic if source not in agreeing),
            *self.coverage.findings(self.label),
        ]


def examine(check: Callable[[], object], quantities: Quantities = NONE, *, known: dict | None = None) -> list[Examined]:
    """Run a test, and once more for each source that it calls, with random numbers from that source.

    Parameters
    ----------
    check : callable without arguments
        Calls ``check_equation``, and computes its cases by functions that are marked :func:`computed`.
    quantities : Quantities, optional
        What sizes its arguments have, and which ends of ranges its cases must have; by default none.
    known : dict, optional
        What the sources returned to earlier tests, which is not computed again; more is put into it.

    Returns
    -------
    list of Examined
        One for each call of ``check_equation``.

    Raises
    ------
    EquationError
        As the test by itself does; if the sides change and still agree with random numbers from a source that the
        check does not declare as ``algebraic``, or differ with one that it declares; if it has no source that matters,
        and does not say why by ``algebraic={"no source": reason}``; if no case has an end of a range
        that applies, or one of two sizes is never the smaller, and the check does not declare it as ``left_out``.

    Examples
    --------
    >>> from reference_impl.equations import check_equation, computed
    >>> @computed
    ... def total(y):
    ...     return sum(y)
    >>> def check():
    ...     y = [2, 3]
    ...     def share(z, k):
    ...         return y[k] / z
    ...     check_equation("eq-share", lambda z, k: y[k] / total(y), share, [(total(y), 0), (total(y), 1)])
    >>> examine(check)  # both sides divide by the same total, whatever it is
    Traceback (most recent call last):
    ...
    reference_impl.equations.checking.EquationError: eq-share: the sides agree whatever total returns
    """
    with run_as(Run(values={} if known is None else known)) as real:
        check()
    outcomes = {source: _without(source, check, real) for source in real.kinds}
    examined = [Examined(compared, dict(real.kinds), {source: found[i] for source, found in outcomes.items()},
                         _coverage(quantities, compared, real)) for i, compared in enumerate(real.checks)]
    findings = [finding for each in examined for finding in each.findings()]
    if findings:
        raise EquationError("; ".join(findings))
    return examined


def _coverage(quantities, compared, real):
    try:
        return quantities.coverage(compared.check.arguments(), real.calls, compared.check.left_out)
    except ValueError as error:
        raise EquationError(f"{compared.check.label}: {error}") from error


def _without(source, check, real):
    """The outcome for each check in a run in which one source returns random numbers."""
    run, error = Run(scrambled=source, values=real.values), "not reached"
    with run_as(run), np.errstate(all="ignore"):
        try:
            check()
        except Exception as caught:  # random numbers may break anything on the way
            error = type(caught).__name__
    found = []
    for i, compared in enumerate(real.checks):
        if i >= len(run.checks):
            found.append(error)
        elif not run.checks[i].agrees:
            found.append("differ")
        else:
            found.append("unused" if run.checks[i].numbers == compared.numbers else "agree")
    return found
