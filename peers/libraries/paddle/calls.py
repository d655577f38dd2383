"""Paddle's CTC loss in direct calls, for what no report shows. tests/test_calls.py judges what it returns."""

import paddle
from recording import question, record, sixteenths


@question
def mean():
    """ctc_loss of two utterances, with a reduction of none and of mean; and of two others, one with an empty target."""
    logits = sixteenths(51, 4, 2, 4).astype("float32")

    def loss(lengths, reduction):
        return paddle.nn.functional.ctc_loss(
            paddle.to_tensor(logits), paddle.to_tensor([[1, 2], [3, 0]], "int32"), paddle.to_tensor([4, 3], "int64"),
            paddle.to_tensor(lengths, "int64"), blank=0, reduction=reduction).numpy()

    return {"logits": logits, "losses": loss([2, 1], "none"), "mean": loss([2, 1], "mean"),
            "losses_with_an_empty_target": loss([2, 0], "none"), "mean_with_an_empty_target": loss([2, 0], "mean")}


record()
