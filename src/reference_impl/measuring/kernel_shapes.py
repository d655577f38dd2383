"""The bytes that one step of the Triton kernels moves, from the shapes alone: it runs nothing, and counts nothing."""

from __future__ import annotations

__all__ = ["lattice_bytes", "logits_bytes"]


def logits_bytes(kind: str, B: int, T: int, U: int, V: int, size: int) -> int:
    """Of all logits of a batch, with ``size`` bytes each.

    Examples
    --------
    >>> logits_bytes("ctc", 1, 3, 1, 3, 4), logits_bytes("rnnt", 1, 2, 1, 3, 4)
    (36, 48)
    """
    return size * B * T * V * {"ctc": 1, "rnnt": U + 1}[kind]


def lattice_bytes(kind: str, T: int, U: int, size: int = 4) -> dict[str, int]:
    """What each kernel reads and writes for one utterance besides logits and gradient, if the loss is finite.

    Left out: targets, lengths, and what there is once for each utterance.

    Parameters
    ----------
    kind : "ctc" | "rnnt"
    T, U : int
    size : int
        Bytes of a number that is computed with; an exponent has 4.

    Examples
    --------
    >>> lattice_bytes("rnnt", 2, 1)
    {'rnnt_rows': 80, 'rnnt_forward': 72, 'rnnt_backward': 64, 'rnnt_gradient': 56}
    """
    weight, rows = size + 4, U + 1  # a weight is a mantissa and an exponent
    if kind == "ctc":
        frame = {"ctc_rows": 2 * size + weight * rows,
                 "ctc_forward": weight * rows + size + 5 * size * rows,
                 "ctc_backward": 5 * size * rows + size * (2 * U + 1),
                 "ctc_gradient": size * (2 * U + 1) + 2 * size}
        return {kernel: T * count for kernel, count in frame.items()}
    nodes, labels, lanes = T * rows, T * U, (T + U - 1) * rows
    return {"rnnt_rows": 2 * size * nodes + weight * (nodes + labels),
            "rnnt_forward": weight * ((T - 1) * rows + 1 + labels) + 2 * size * lanes,
            "rnnt_backward": 2 * size * lanes + size * (lanes + rows) + size * (T + U - 1) * U,
            "rnnt_gradient": 3 * size * nodes + size * labels}
