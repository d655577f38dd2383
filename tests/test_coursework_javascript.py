"""The port that the course shows, in node, graded by the kit through JSON lines: as it is, and with a wrong sign."""

import pytest
from test_conformance import SLOW_GROUPS, sentences
from test_vectors import PORT, node

from reference_impl.conformance import Program, grade


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_a_loss_in_javascript(kind):
    """The mathematics of the laboratory, in node, through JSON lines: no upstream gradients, nothing left in arrays."""
    with Program([node(), str(PORT), kind]) as subject:
        report = grade(subject, without=SLOW_GROUPS)
    assert report.right, report
    left_out = {"accuracy", "afterwards", "upstream"} | ({"fastemit"} if kind == "ctc" else set())
    assert set(report.left_out) == left_out
    assert all(report.identified.prefixes.values()) and len(report.identified.prefixes) == 2


def test_a_wrong_loss_in_javascript(tmp_path):
    """The same file with one sign changed."""
    source = PORT.read_text(encoding="utf-8")
    wrong = tmp_path / "laboratory.js"
    there = str(PORT.parents[2] / "book" / "_static" / "lattice_math.js")
    changed = source.replace("../../book/_static/lattice_math.js", there).replace("loss: 0 - s.logZ", "loss: s.logZ")
    assert changed.count("loss: s.logZ") == 1
    wrong.write_text(changed, encoding="utf-8")
    with Program([node(), str(wrong), "ctc"]) as subject:
        assert sentences(grade(subject, without=SLOW_GROUPS, shrink=False)) == [
            "The gradient is not scaled; the loss is multiplied by -1."]
