"""What libraries make of the losses of a batch. Each is linear, so its weights are the upstream gradients."""

from __future__ import annotations

from .table import Row, read_in

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


_NEMO = "nemo nemo/collections/asr/losses/rnnt.py"

REDUCTIONS = (
    Row("mean-torch", ('torch CTC "mean"', "each loss by its target length, at least 1; then by B"), None,
        mean_by_length_or_1, read_in("torch aten/src/ATen/native/LossCTC.cpp get_clamped_target_length",
                                     "torch aten/src/ATen/native/LossCTC.cpp ctc_loss_impl")),
    Row("mean-by-length", ('Paddle CTC, k2 CTC, NeMo RNN-T "mean"',
                           "each loss by its target length, even if that is 0; then by B"), None, mean_by_length,
        read_in("paddle python/paddle/nn/functional/loss.py ctc_loss", "k2 k2/python/k2/ctc_loss.py 148-151",
                f"{_NEMO} 430-431")),
    Row("mean-batch", ('torchaudio, warp-transducer, warprnnt_numba, k2 RNN-T "mean"; NeMo "mean_batch"; ESPnet CTC; '
                       "warpctc_pytorch `size_average`; this book", "by B"), None, batch_mean,
        read_in("torchaudio-wheel torchaudio/functional/functional.py 1791-1792",
                "warp-transducer pytorch_binding/warprnnt_pytorch/__init__.py 36-40",
                "warprnnt_numba warprnnt_numba/rnnt_loss/rnnt_pytorch.py 75-81", "k2 k2/python/k2/rnnt_loss.py 330-331",
                f"{_NEMO} 428-429", "espnet espnet2/asr/ctc.py loss_fn",
                "warpctc-pytorch pytorch_binding/warpctc_pytorch/__init__.py 41-44")),
    Row("mean-volume", ('NeMo "mean_volume"', "by the sum of the target lengths"), None, by_all_labels,
        read_in(f"{_NEMO} 434-435")),
    Row("mean-frames", ("warpctc_pytorch `length_average`; what icefall logs",
                        "by the sum of the input lengths (icefall: after subsampling)"), None, by_all_frames,
        read_in("warpctc-pytorch pytorch_binding/warpctc_pytorch/__init__.py 36-40",
                "icefall egs/librispeech/ASR/zipformer/train.py 982",
                "icefall egs/librispeech/ASR/zipformer/train.py 1025")),
    Row("mean-not", ("warpctc_pytorch by default; what icefall trains on", "by nothing: the sum"), None, total,
        read_in("warpctc-pytorch pytorch_binding/warpctc_pytorch/__init__.py 34",
                "icefall egs/librispeech/ASR/zipformer/model.py 181",
                "icefall egs/librispeech/ASR/zipformer/model.py 330")),
)
