"""Decoding and confidence: which strings of labels a CTC or RNN-T network says, and how sure it is. NumPy, no training.

The losses sum over the alignments of a known string. Here the string is wanted, and the same sweeps find it.
Read in this order:

- ``greedy``: the best symbol of each frame;
- ``ctc_prefix`` and ``rnnt_prefix``: the mass of all strings that begin with a prefix, by the forward recursion of the
  loss, cut into one piece for each label;
- ``exact``: the best strings by these masses, with nothing pruned;
- ``beam``: prefix beam search, also with the n-gram model of ``language_model``;
- ``confidence``: posteriors of strings, positions and words;
- ``calibration``: whether answers are right as often as their confidences say;
- ``error_rates``: edits, error rates and their intervals. It needs rapidfuzz, so import it by its own name.

Labels are ints other than ``blank``, and log-masses are in nats.
"""

from .beam import Hypothesis, ctc_beam_search, rnnt_beam_search
from .calibration import (
    ReliabilityBins,
    brier_score,
    expected_calibration_error,
    fit_temperature,
    reliability_bins,
)
from .confidence import (
    ctc_position_posteriors,
    n_best_posteriors,
    position_posteriors,
    split_words,
    string_posterior,
    word_posteriors,
)
from .ctc_prefix import CTCPrefix, CTCPrefixScorer
from .exact import SMALLEST_DIFFERENCE, SearchLimitReached, best_path, n_best
from .greedy import blank_share, greedy_decode, peaks
from .language_model import NGramModel
from .rnnt_prefix import RNNTPrefix, RNNTPrefixScorer

__all__ = ["SMALLEST_DIFFERENCE", "CTCPrefix", "CTCPrefixScorer", "Hypothesis", "NGramModel", "RNNTPrefix",
           "RNNTPrefixScorer", "ReliabilityBins", "SearchLimitReached", "best_path", "blank_share", "brier_score",
           "ctc_beam_search", "ctc_position_posteriors", "expected_calibration_error", "fit_temperature",
           "greedy_decode", "n_best", "n_best_posteriors", "peaks", "position_posteriors", "reliability_bins",
           "rnnt_beam_search", "split_words", "string_posterior", "word_posteriors"]
