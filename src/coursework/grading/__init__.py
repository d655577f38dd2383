"""Grades submissions with nbgrader, behind fences: `make grade`. What is asked and what is right is in `questions`."""
