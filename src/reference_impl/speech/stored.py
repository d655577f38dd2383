"""Networks that ``benchmarks/speech_networks.py`` trained for longer than a chapter may: weights from a file, and back.

Weights are stored as float16: half the size, and rounding that moves no error rate by more than an utterance's luck.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .networks import CTCNetwork, Transducer

__all__ = ["ctc_network", "store", "transducer_network"]


def store(network, path):
    """Write a network's weights into an ``.npz`` file, float16."""
    weights = {name: value.numpy().astype(np.float16) for name, value in network.state_dict().items()}
    np.savez_compressed(path, **weights)


def ctc_network(folder) -> CTCNetwork:
    """The stored CTC network, in evaluation mode, trained on all training voices.

    Parameters
    ----------
    folder : path
        Of a notebook, ``"../data/speech_networks"``.

    Raises
    ------
    FileNotFoundError
        If the folder has no such weights.

    Examples
    --------
    >>> network = ctc_network(Path(__file__).parents[3] / "data" / "speech_networks")
    >>> network(torch.zeros(1, 100, 40), torch.tensor([100]))[0].shape
    torch.Size([1, 50, 29])
    """
    return _loaded(CTCNetwork(), Path(folder) / "ctc.npz")


def transducer_network(folder) -> Transducer:
    """The stored transducer, in evaluation mode; arguments as for :func:`ctc_network`."""
    return _loaded(Transducer(), Path(folder) / "transducer.npz")


def _loaded(network, path):
    if not path.is_file():
        raise FileNotFoundError(f"folder = {str(path.parent)!r}; expected data/speech_networks of the book's "
                                f"repository, with {path.name}: a package that was installed by itself does not "
                                "bring it")
    with np.load(path) as weights:
        network.load_state_dict({name: torch.from_numpy(weights[name].astype(np.float32)) for name in weights})
    return network.eval()
