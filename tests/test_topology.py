"""Builders of lattices: that they and the recursions do not share their mistakes, and what monotonic RNN-T's are.

CTC's and RNN-T's lattices are compared with strings and with the recursions elsewhere.
"""

import ast
import inspect
import json
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest

from reference_impl import ctc, topology
from reference_impl.lattice import arc_posteriors, enumerate_paths, forward
from reference_impl.semiring import COUNT, REAL
from reference_impl.symbolic import path_sum
from reference_impl.topology import ctc_lattice, monotonic_rnnt_lattice


def spelled(lattice, path):
    return tuple(lattice.arcs[i].entry for i in path)


def entries_of(string, blank):
    """The entries (t, u, k) that a string of one symbol a frame uses: u counts its labels so far."""
    return tuple((t, sum(k != blank for k in string[:t]), k) for t, k in enumerate(string))


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize(("T", "U"), [(T, U) for T in range(1, 5) for U in range(4)])
def test_paths_are_the_strings_whose_labels_are_the_target(T, U, blank):
    """No runs are merged: deleting the blanks leaves the target."""
    targets = [k for k in (1, 1, 3, 0)[:U] if k != blank]
    strings = [s for s in product(range(4), repeat=T) if [k for k in s if k != blank] == targets]
    lattice = monotonic_rnnt_lattice(targets, T, 4, blank=blank)
    paths = [spelled(lattice, path) for path in enumerate_paths(lattice)]
    assert sorted(paths) == sorted(entries_of(string, blank) for string in strings)
    assert len(paths) == comb(T, len(targets))


def test_one_symbol_a_frame():
    """The posteriors of each frame add up to 1, as in CTC."""
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    lattice = monotonic_rnnt_lattice([1, 3], 5, 4)
    weights = lattice.arc_weights(scores)
    np.testing.assert_allclose(lattice.occupancy(arc_posteriors(lattice, weights)).sum((1, 2)), 1, rtol=0, atol=1e-12)


def test_more_labels_than_frames():
    lattice = monotonic_rnnt_lattice([1, 1, 1], 2, 3)
    assert forward(lattice, lattice.arc_weights(np.zeros((2, 4, 3))))[-1] == -np.inf


def compare_as_chapter_35_does():
    """Runs the cell of chapter 35 that compares CTC's recursions with its lattice. Returns, for each T, the monomials
    of Z, and those that are left after subtraction."""
    chapter = json.loads((Path(__file__).parents[1] / "notebooks/35_ctc_loss.ipynb").read_text(encoding="utf-8"))
    cell, = (cell for cell in chapter["cells"] if cell["id"] == "ctc-loss-recursions-symbolic")
    names = {"ctc": ctc, "ctc_lattice": ctc_lattice, "np": np, "REAL": REAL, "table": dict}
    exec("".join(cell["source"]), names)
    return names["terms"]


def skips_between_equal_labels(states):
    def planted(targets, blank):
        symbols, past_blank = states(targets, blank)
        return symbols, [skip or s % 2 == 1 < s for s, skip in enumerate(past_blank)]
    return planted


class TestRecursionAndLatticeAreIndependent:
    def test_the_chapter_finds_them_equal(self):
        terms = compare_as_chapter_35_does()
        assert terms[1:, 0].all() and not terms[:, 1:].any()

    def test_a_skip_between_equal_labels_in_the_recursion_is_noticed(self, monkeypatch):
        monkeypatch.setattr(ctc, "can_skip", lambda extended, s: s >= 2 and s % 2 == 1)
        with pytest.raises(AssertionError):
            compare_as_chapter_35_does()

    def test_a_skip_between_equal_labels_in_the_lattice_is_noticed(self, monkeypatch):
        monkeypatch.setattr(topology.ctc, "_states", skips_between_equal_labels(topology.ctc._states))
        with pytest.raises(AssertionError):
            compare_as_chapter_35_does()

    @pytest.mark.parametrize("side", ["recursion", "lattice"])
    def test_each_target_with_a_repeat_notices(self, monkeypatch, side):
        """Wherever the extra skip makes an extra path, the two differ; without a repeat they never do."""
        if side == "recursion":
            monkeypatch.setattr(ctc, "can_skip", lambda extended, s: s >= 2 and s % 2 == 1)
        else:
            monkeypatch.setattr(topology.ctc, "_states", skips_between_equal_labels(topology.ctc._states))
        noticed = 0
        for T, labels in product(range(2, 6), ([1], [1, 2], [1, 1], [1, 2, 2], [1, 2, 1])):
            y = np.full((T, 3), Fraction(1, 3))
            apart = ctc.Z(y, labels, semiring=REAL) != path_sum(ctc_lattice(labels, T, 3), y)
            more = ctc.Z(np.zeros((T, 3)), labels, semiring=COUNT) != comb(
                T + len(labels) - sum(np.diff(labels) == 0), 2 * len(labels))
            assert apart <= (labels in ([1, 1], [1, 2, 2]))
            assert not more or side == "recursion"
            noticed += apart
        assert noticed == 7  # T = 2 to 5 for [1, 1], T = 3 to 5 for [1, 2, 2]

    def test_the_builder_takes_nothing_from_the_recursion(self):
        taken = {alias.name for node in ast.walk(ast.parse(inspect.getsource(topology.ctc)))
                 if isinstance(node, ast.ImportFrom) for alias in node.names if (node.module or "") in ("", "ctc")}
        assert "ctc" not in taken and not taken & set(ctc.__all__)
