"""The graded questions whose answers students do not get. `coursework.questions.sealed` reads this folder.

For a course whose repository is public, copy it to a place that is not, change the rules there, and name the place by
COURSEWORK_GRADED.
"""

from . import own_beta, own_gradient, own_grid, own_port

__all__ = ["QUESTIONS"]

#: Questions by assignment, with the names and points that `coursework.questions.own` has for them.
QUESTIONS = {
    "2_ctc_beta": own_beta.QUESTIONS,
    "3_ctc_gradient": own_gradient.QUESTIONS,
    "4_rnnt_gradient": own_grid.QUESTIONS,
    "8_port_a_loss": own_port.QUESTIONS,
}
