"""Forward and backward variables of other sources: where each counts an emission, and where it counts from."""

from __future__ import annotations

import numpy as np

from .table import Row

__all__ = ["VARIABLES"]


def same(log_alpha, log_beta, emission):
    return log_alpha, log_beta


def without_second_emission(log_alpha, log_beta, emission):
    return log_alpha, log_beta - emission


def with_second_emission(log_alpha, log_beta, emission):
    return log_alpha, log_beta + emission


def emission_moved_to_alpha(log_alpha, log_beta, emission):
    return log_alpha + emission, log_beta - emission


def emission_moved_to_beta(log_alpha, log_beta, emission):
    return log_alpha - emission, log_beta + emission


def frames_from_0(log_alpha):
    return log_alpha[1:]


def frames_from_1(log_alpha):
    return np.concatenate([np.full((1, log_alpha.shape[1]), np.nan), log_alpha])  # there is no frame 0


def without_the_end(p):
    return p.T[:-1]


def with_the_end(log_alpha, blank_scores):
    return np.concatenate([log_alpha, [log_alpha[-1] + blank_scores[-1]]]).T


VARIABLES = (
    Row("alpha-beta-here", ("this book, CTC", "emission at $t$", "emissions after $t$", r"$\alpha\,\beta$")),
    Row("alpha-beta-2006",
        ("{cite:t}`graves2006ctc`; warp-ctc; torch's own CTC", "emission at $t$", "emission at $t$ and after",
         r"$\alpha\,\beta / y$"), without_second_emission, with_second_emission,
        claims=("warp-ctc-both-emissions", "torch-ctc-both-emissions")),
    Row("alpha-beta-thesis",
        ("{cite:t}`graves2012supervised`; TensorFlow's sparse CTC (CPU)", "emission at $t$", "emissions after $t$",
         r"$\alpha\,\beta$"), same, same,
        claims=("tensorflow-sparse-beta",)),
    Row("alpha-beta-arcs",
        ("weights on the arcs that *leave* a state, as in RNN-T", "emissions before $t$", "emission at $t$ and after",
         r"$\alpha\,\beta$"), emission_moved_to_alpha, emission_moved_to_beta),
    Row("alpha-beta-rnnt",
        ("this book, RNN-T; warp-transducer; torchaudio", "steps before the node", "steps from the node on",
         r"$\alpha\,\beta$"), same, same,
        claims=("warp-transducer-cpu-alpha", "warp-transducer-cpu-beta", "torchaudio-cpu-alpha",
                "torchaudio-cpu-beta")),
    Row("alpha-from-1",
        ("{cite:t}`graves2012transduction`", r"the same, at $\alpha(t + 1, u)$: its frames count from 1", "the same",
         r"$\alpha\,\beta$"), frames_from_0, frames_from_1),
    Row("alpha-k2",
        ("k2's `p[s][t]`", r"$\alpha_t(u)$, indices swapped, and one more column; $\log Z$ is its last entry",
         "no $\\beta$", r"$\alpha\,\beta / Z$ is `p_grad`"), without_the_end, with_the_end,
        claims=("k2-alpha", "k2-gradient")),
)
