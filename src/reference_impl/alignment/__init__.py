"""Forced alignment: when each label and each word of a known transcript was said. No loss is here, and none uses it.

``best_path`` has the best path of CTC and RNN-T and the frames that it gives to each label; ``posterior`` what all
paths say about these frames; ``star`` aligns where text or speech is missing. These three read off the lattices of
:mod:`reference_impl.topology`, which are small. ``long`` and ``long_posterior`` do for 90 minutes of audio what the
first two do for a sentence, a row of states at a time, and quickly; and ``boundaries`` compares times with true ones.
One utterance at a time, log-probs in nats, frames counted from 0.
"""

from .best_path import BestPath, NoAlignment, ctc_best_path, rnnt_best_path, word_spans
from .boundaries import Estimate, boundary_accuracy, boundary_errors, span_times
from .long import FrameSource, band_around, choose_block, long_ctc_best_path, predicted_bytes
from .long_posterior import LongPosteriors, long_ctc_posteriors
from .posterior import (
    credible_frames,
    ctc_run_posteriors,
    ctc_span_posteriors,
    mass_near,
    median_frame,
    rnnt_frame_posteriors,
    rnnt_span_posteriors,
)
from .star import (
    STAR,
    StarAlignment,
    StarPosteriors,
    star_best_path,
    star_lattice,
    star_posteriors,
    star_scores,
)

__all__ = ["BestPath", "Estimate", "FrameSource", "LongPosteriors", "NoAlignment", "STAR", "StarAlignment",
           "StarPosteriors", "band_around", "boundary_accuracy", "boundary_errors", "choose_block", "credible_frames",
           "ctc_best_path", "ctc_run_posteriors", "ctc_span_posteriors", "long_ctc_best_path", "long_ctc_posteriors",
           "mass_near", "median_frame", "predicted_bytes", "rnnt_best_path", "rnnt_frame_posteriors",
           "rnnt_span_posteriors", "span_times", "star_best_path", "star_lattice", "star_posteriors", "star_scores",
           "word_spans"]
