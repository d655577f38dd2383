"""What libraries make of the losses of a batch. Each is linear, so its weights are the upstream gradients."""

from __future__ import annotations

from .table import Row

__all__ = ["REDUCTIONS"]


def mean_by_length_or_1(losses, target_lengths, logit_lengths):
    return sum(loss / max(U, 1) for loss, U in zip(losses, target_lengths, strict=True)) / len(losses)


def mean_by_length(losses, target_lengths, logit_lengths):
    return sum(loss / U for loss, U in zip(losses, target_lengths, strict=True)) / len(losses)


def batch_mean(losses, target_lengths, logit_lengths):
    return sum(losses) / len(losses)


def by_all_labels(losses, target_lengths, logit_lengths):
    return sum(losses) / sum(target_lengths)


def by_all_frames(losses, target_lengths, logit_lengths):
    return sum(losses) / sum(logit_lengths)


def total(losses, target_lengths, logit_lengths):
    return sum(losses)


REDUCTIONS = (
    Row("mean-torch", ('torch CTC "mean"', "each loss by its target length, at least 1; then by B"), None,
        mean_by_length_or_1, claims=("torch-ctc-mean",)),
    Row("mean-by-length", ('Paddle CTC, k2 CTC, NeMo RNN-T "mean"',
                           "each loss by its target length, even if that is 0; then by B"), None, mean_by_length,
        claims=("paddle-ctc-mean", "k2-ctc-mean", "nemo-reductions")),
    Row("mean-batch", ('torchaudio, warp-transducer, warprnnt_numba, k2 RNN-T "mean"; NeMo "mean_batch"; ESPnet CTC; '
                       "warpctc_pytorch `size_average`; this book", "by B"), None, batch_mean,
        claims=("torchaudio-mean", "warp-transducer-mean", "warprnnt-numba-mean", "k2-mean", "nemo-reductions",
                "espnet-mean", "warp-ctc-binding-reductions")),
    Row("mean-volume", ('NeMo "mean_volume"', "by the sum of the target lengths"), None, by_all_labels,
        claims=("nemo-reductions",)),
    Row("mean-frames", ("warpctc_pytorch `length_average`; what icefall's zipformer logs",
                        "by the sum of the input lengths (icefall: after subsampling)"), None, by_all_frames,
        claims=("warp-ctc-binding-reductions", "icefall-logged")),
    Row("mean-not", ("warpctc_pytorch by default; what icefall's zipformer trains on", "by nothing: the sum"), None,
        total, claims=("warp-ctc-binding-reductions", "icefall-backward-sum")),
)
