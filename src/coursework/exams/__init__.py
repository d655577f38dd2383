"""Exams drawn from kinds of questions, each sheet with numbers of its own, and their keys. No answer is graded here."""

from .bank import KINDS, Sheet, sheet
from .item import Item, Kind

__all__ = ["KINDS", "Item", "Kind", "Sheet", "sheet"]
