"""Grades: `python -m coursework.grading`."""

from .command import main

main()
