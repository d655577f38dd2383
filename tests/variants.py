"""The relatives of CTC and RNN-T behind one call, for tests: each by enumeration, as a lattice, as a torch loss.

Enumeration knows no lattice builder: an alignment is a list of the entries of the scores that it uses. What a network
returns for a node is one row of scores for every variant, ``columns(V)`` wide; ``groups(V)`` are normalised apart.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from enumeration import ctc_alignments, rnnt_alignments

from reference_impl import topology, torch_impl
from reference_impl.lattice import Arc, Lattice

BIG_BLANK_FRAMES = (2, 3)  # of the last symbols of multi-blank RNN-T
DURATIONS = (0, 2, 3)  # 1 is not among them


@dataclass(frozen=True)
class Variant:
    """One loss of transducer scores.

    Attributes
    ----------
    alignments : callable of targets, T, V, blank
        Lists of entries, by enumeration.
    lattice : callable of targets, T, V, blank
    torch : callable like ``rnnt_loss``, or None
        Of scores (B, T, U+1, columns(V)).
    extra : int
        Columns beyond the V symbols.
    apart : bool
        Whether they are normalised apart from the symbols.
    """

    alignments: Callable
    lattice: Callable
    torch: Callable | None
    extra: int = 0
    apart: bool = False

    def columns(self, V):
        return V + self.extra

    def groups(self, V):
        return (V, self.extra) if self.apart else (V + self.extra,)


def monotonic_alignments(targets, T, V, blank):
    """Strings of one symbol a frame that are the target when blanks are left out."""
    strings = (s for s in itertools.product(range(V), repeat=T) if [k for k in s if k != blank] == list(targets))
    return [[(t, sum(k != blank for k in s[:t]), k) for t, k in enumerate(s)] for s in strings]


def constrained_alignments(targets, T, V, blank):
    """Those of RNN-T in which every label is followed by a blank."""
    return [path for path in rnnt_alignments(targets, T, V, blank)
            if all(after[2] == blank for (_, _, k), after in itertools.pairwise(path) if k != blank)]


def walks(targets, T, moves, t=0, u=0):
    """Ways from (t, u) to (T, U) by moves, each (frames, rows, entries at a node, may it be the last?)."""
    if (t, u) == (T, len(targets)):
        yield []
        return
    for frames, rows, entries, may_end in moves(t, u):
        there = t + frames, u + rows
        if there[0] < T and there[1] <= len(targets) or may_end and there == (T, len(targets)):
            yield from ([*entries, *rest] for rest in walks(targets, T, moves, *there))


def multi_blank_alignments(targets, T, V, blank):
    def moves(t, u):
        big = [(frames, 0, [(t, u, V + i)], True) for i, frames in enumerate(BIG_BLANK_FRAMES)]
        label = [(0, 1, [(t, u, targets[u])], False)] if u < len(targets) else []
        return [(1, 0, [(t, u, blank)], True), *big, *label]
    return list(walks(targets, T, moves))


def tdt_alignments(targets, T, V, blank, final_blank=True):
    def moves(t, u):
        for i, frames in enumerate(DURATIONS):
            if frames > 0:
                yield frames, 0, [(t, u, blank), (t, u, V + i)], True
            if u < len(targets):
                yield frames, 1, [(t, u, targets[u]), (t, u, V + i)], not final_blank
    return list(walks(targets, T, moves))


def band(T, U):
    """A band of two rows from corner to corner: its height, and its first rows."""
    height = min(2, U + 1)
    return height, [(U + 1 - height) * t // max(T - 1, 1) for t in range(T)]


def pruned_alignments(targets, T, V, blank):
    """Those of RNN-T that use entries of the band only; a node that is entered is also left."""
    height, first = band(T, len(targets))
    return [path for path in rnnt_alignments(targets, T, V, blank)
            if all(0 <= u - first[t] < height for t, u, _ in path)]


def pruned_lattice(targets, T, V, blank):
    """The band's lattice, its entries as those of the whole grid."""
    height, first = band(T, len(targets))
    cut = topology.pruned_rnnt_lattice(targets, first, height, V, blank=blank)
    arcs = (Arc(arc.source, arc.target, (t, first[t] + r, k)) for arc in cut.arcs for t, r, k in [arc.entry])
    return Lattice(cut.nodes, tuple(arcs), (T, len(targets) + 1, V))


def pruned_loss(scores, targets, logit_lengths, target_lengths, **options):
    """Of whole rows of scores, from which the band is cut; lengths may be bad."""
    B, T, rows, V = scores.shape
    height = min(2, rows)
    first = torch.zeros((B, T), dtype=torch.int64)
    for b in range(B):
        t, u = min(max(int(logit_lengths[b]), 1), T), min(max(int(target_lengths[b]), 0), rows - 1)
        first[b, :t] = torch.tensor(band(t, u)[1])
    first = first.clamp(max=rows - height).to(scores.device)
    index = (first[..., None] + torch.arange(height, device=scores.device))[..., None].expand(B, T, height, V)
    cut = scores.gather(2, index)
    return torch_impl.pruned_rnnt_loss(cut, first, targets, logit_lengths, target_lengths, **options)


def multi_blank_loss(scores, *arguments, **options):
    V = scores.shape[-1] - len(BIG_BLANK_FRAMES)
    big_blanks = {V + i: frames for i, frames in enumerate(BIG_BLANK_FRAMES)}
    return torch_impl.multi_blank_rnnt_loss(scores, *arguments, big_blanks=big_blanks, **options)


def tdt_loss(scores, *arguments, **options):
    symbols, durations = scores.tensor_split([-len(DURATIONS)], -1)
    return torch_impl.tdt_loss(symbols, durations, *arguments, durations=DURATIONS, **options)


def multi_blank_lattice(targets, T, V, blank):
    big_blanks = {V + i: frames for i, frames in enumerate(BIG_BLANK_FRAMES)}
    return topology.multi_blank_rnnt_lattice(targets, T, V + len(BIG_BLANK_FRAMES), big_blanks=big_blanks, blank=blank)


def star_alignments(targets, T, V, blank):
    """Strings of symbols that hold the target as a subsequence: each label is taken where it first fits."""
    paths = []
    for string in itertools.product(range(V), repeat=T):
        path, u = [], 0
        for t, k in enumerate(string):
            seen = u < len(targets) and k == targets[u]
            if k == blank or seen:
                path.append((t, k))
            else:
                path.append((t, V + (targets[u] if u < len(targets) else blank)))
            u += seen
        if u == len(targets):
            paths.append(tuple(path))
    return [list(path) for path in sorted(set(paths))]  # a star stands for several symbols


def wildcard_alignments(targets, T, V, blank):
    """CTC's alignments of some frames next to each other, one at least; the frames before and after hold nothing."""
    return [[(first + t, k) for t, k in path] for first in range(T) for last in range(first, T)
            for path in ctc_alignments(targets, last + 1 - first, V, blank)]


def by_keyword(builder, **options):
    """A builder that takes the blank as its last positional argument."""
    return lambda targets, T, V, blank: builder(targets, T, V, blank=blank, **options)


VARIANTS = {
    "monotonic": Variant(monotonic_alignments, by_keyword(topology.monotonic_rnnt_lattice),
                         torch_impl.monotonic_rnnt_loss),
    "constrained": Variant(constrained_alignments, by_keyword(topology.constrained_rnnt_lattice), None),
    "multi-blank": Variant(multi_blank_alignments, multi_blank_lattice, multi_blank_loss, len(BIG_BLANK_FRAMES)),
    "tdt": Variant(tdt_alignments, by_keyword(topology.tdt_lattice, durations=DURATIONS), tdt_loss, len(DURATIONS),
                   apart=True),
    "tdt without a final blank": Variant(
        partial(tdt_alignments, final_blank=False),
        by_keyword(topology.tdt_lattice, durations=DURATIONS, final_blank=False), partial(tdt_loss, final_blank=False),
        len(DURATIONS), apart=True),
    "pruned": Variant(pruned_alignments, pruned_lattice, pruned_loss),
    "star": Variant(star_alignments, by_keyword(topology.star_ctc_lattice), None),
    "wildcards": Variant(wildcard_alignments, by_keyword(topology.wildcard_ctc_lattice), None),
}
