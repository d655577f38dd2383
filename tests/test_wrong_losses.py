"""Wrong losses written without a look at the bank of planted bugs: what the kit says of them, and of right ones."""

import pytest
from wrong_losses import RIGHT, WRONG

from reference_impl.conformance import function_subject, grade

#: Words of a finding that names the cause, where they are not those that the author of the loss expected.
ALSO = {
    "scatter by index": "keeps the last state of a symbol only",
    "label of the row above": "a label arc reads the row that it leads to",
}
#: Those of which the cause is not named, only that they are wrong, and where.
UNNAMED = set()


def graded(loss):
    return grade(function_subject(loss.function, loss.kind), shrink=False,
                 expect={"inputs": loss.variable, "variable": loss.variable})


@pytest.mark.slow
@pytest.mark.parametrize("loss", RIGHT, ids=lambda loss: f"{loss.kind}: {loss.name}")
def test_right_losses_accept_bad_input_at_most(loss):
    assert all(finding.sentence.startswith("It accepts bad input") for finding in graded(loss).findings)


@pytest.mark.slow
@pytest.mark.parametrize("loss", WRONG, ids=lambda loss: f"{loss.kind}: {loss.name}")
def test_wrong_losses_are_found_and_most_are_named(loss):
    found = [finding.sentence.lower() for finding in graded(loss).findings
             if not finding.sentence.startswith("It accepts bad input")]
    assert found
    says = [ALSO[loss.name].lower()] if loss.name in ALSO else loss.says
    assert any(words in sentence for words in says for sentence in found) == (loss.name not in UNNAMED), found
