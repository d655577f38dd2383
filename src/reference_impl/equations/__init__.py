"""Identities as checks that can fail: both sides are executed, the right one is mutated, the evidence is made random.

A check that cannot fail shows nothing. So after the comparison every term and factor of the right side is dropped in
turn, every sign flipped, every index and bound shifted, and the comparison must fail each time. The right side is an
ordinary Python function that looks like the displayed equation.
"""

from .checking import EquationError, EquationReport, agree, check_equation, zero_outside
from .evidence import Examined, examine
from .mutants import mutants
from .quantities import Coverage, Quantities
from .random_numbers import random_like
from .sources import computed, no_source_while

__all__ = ["EquationError", "EquationReport", "agree", "check_equation", "mutants", "zero_outside", "Coverage",
           "Examined", "Quantities", "computed", "examine", "no_source_while", "random_like"]
