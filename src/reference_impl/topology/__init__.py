"""Lattice builders: which arcs a loss has, and which log-prob entry each of them uses. One builder for each loss."""

from .ctc import ctc_lattice, star_ctc_lattice, star_log_probs, wildcard_ctc_lattice
from .named import named_lattice
from .transducer import (
    constrained_rnnt_lattice,
    monotonic_rnnt_lattice,
    multi_blank_rnnt_lattice,
    pruned_rnnt_lattice,
    rnnt_lattice,
    tdt_lattice,
)

__all__ = ["constrained_rnnt_lattice", "ctc_lattice", "monotonic_rnnt_lattice", "multi_blank_rnnt_lattice",
           "named_lattice", "pruned_rnnt_lattice", "rnnt_lattice", "star_ctc_lattice", "star_log_probs", "tdt_lattice",
           "wildcard_ctc_lattice"]
