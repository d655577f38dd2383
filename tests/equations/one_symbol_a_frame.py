"""Paths on which every symbol takes a frame: those of monotonic RNN-T, and of k2's modified type."""

from brute_force import blank_of
from variants import monotonic_alignments

from reference_impl.equations import computed


@computed
def monotonic_paths(y, labels):
    """Strings of one symbol a frame that give the labels, as entries."""
    return monotonic_alignments(labels, len(y), y.shape[-1], blank_of(labels))
