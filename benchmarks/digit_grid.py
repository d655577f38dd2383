"""The logits that two networks give one string of digits while they are trained, for the chapters to look at.

    python benchmarks/digit_grid.py                # a minute of training, writes data/digit_grid.json

One network is the transducer of :mod:`reference_impl.digits.transducer`, the other its encoder alone, trained with CTC:
the encoder's vectors are the logits. Both are trained there, with seed 0; the string is made of images on which nothing
was trained. The pixels are sixteenths, as scanned, the logits are rounded to hundredths, and both are stored as
integers. Training on another machine or with another torch ends in other last digits, so the chapters read the file and
do not train.
"""

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import sklearn
import torch

from reference_impl.digits import strings
from reference_impl.digits.transducer import DigitTransducer, as_tensors, train
from reference_impl.torch_impl import ctc_loss

STAGES = (0, 100, 250, 1000)  # steps done
CTC_STAGES = (0, 100, 150, 300)
WHAT = ("logits in hundredths, by steps of training, of a transducer, (T, U+1, V), and of a CTC network, (T, V), and "
        "pixels (T, 8) in sixteenths, of a string of held-out digits; digit d is label d + 1, the blank is 0")


def string():
    """Four digits with narrow gaps."""
    return strings.make_strings(*strings.load_images(held_out=True), 1, np.random.default_rng(60), lengths=(4, 4),
                                gaps=(0, 2))


def in_units(array, unit):
    return np.rint(np.asarray(array, float) * unit).astype(int).tolist()


def logits_of(network, chosen, of):
    """In hundredths; the network is handed back in training mode, with its averages untouched."""
    frames, targets, frame_lengths, _ = as_tensors(chosen)
    network.eval()
    with torch.no_grad():
        return in_units(of(network, frames, frame_lengths, targets)[0][0], 100)


def by_stage(network, chosen, stages, of, **how):
    """The logits of the string after so many steps of training."""
    found = {"0": logits_of(network, chosen, of)} if 0 in stages else {}
    for step, loss in train(network, *strings.load_images(held_out=False), steps=max(stages), **how):
        if step in stages:
            found[str(step)] = logits_of(network, chosen, of)
            print(f"step {step:4}: training loss {loss:.3f}")
    return found


def ctc_of_encoder(network, frames, frame_lengths, targets, target_lengths):
    return ctc_loss(network.encode(frames, frame_lengths)[0], targets, frame_lengths, target_lengths)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", type=int, nargs="+", default=STAGES, help="steps (default: 0 100 250 1000)")
    parser.add_argument("--ctc-stages", type=int, nargs="+", default=CTC_STAGES, help="(default: 0 100 150 300)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "digit_grid.json")
    options = parser.parse_args()

    torch.set_num_threads(1)
    chosen = string()
    torch.manual_seed(0)
    logits = by_stage(DigitTransducer(), chosen, options.stages, lambda network, *given: network(*given))
    torch.manual_seed(0)
    ctc_logits = by_stage(DigitTransducer(strings.NUM_SYMBOLS), chosen, options.ctc_stages,
                          lambda network, frames, lengths, _: network.encode(frames, lengths), max_rate=6e-3,
                          loss=ctc_of_encoder)

    result = {"what": WHAT, "date": f"{datetime.now(UTC):%Y-%m-%d}", "python": platform.python_version(),
              "versions": {"torch": torch.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
              "machine": {"architecture": platform.machine()}, "digits": strings.spell(chosen.targets_of(0)),
              "targets": chosen.targets_of(0).tolist(), "pixels": in_units(chosen.frames_of(0), 16), "logits": logits,
              "ctc_logits": ctc_logits}
    parts = [f" {json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in result.items()]
    options.output.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    print(f"{options.output}: {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
