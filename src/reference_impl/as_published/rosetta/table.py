"""What a row of the Rosetta stone is: words, two functions, and the source it was read from. The rows are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["REPOSITORIES", "Row", "Source", "read_in"]

#: Where the libraries were read: repository and commit, or a release, by the names that sources have.
REPOSITORIES = {
    "espnet": ("espnet/espnet", "ce0250f4adc9cc3cc921af296cce68bea2eacc8e"),
    "icefall": ("k2-fsa/icefall", "36e0420c7e3e849a25b3d24dbf913c424f3d23c9"),
    "k2": ("k2-fsa/k2", "a741ae88abc6995345aa166464a239b7d270dd4c"),
    "monotonic-rnnt": ("SimBe195/monotonic-rnnt", "3fbb480107f7379347b25953be0727dcc4d0e57b"),
    "nemo": ("NVIDIA/NeMo", "8cfedd7203462cb251a914e700e5605444277561"),
    "paddle": ("PaddlePaddle/Paddle", "69a4a012977ae0904b35b7352f771276ab8ed966"),
    "paddle-transducer": ("PaddlePaddle/warp-transducer", "7ea6bfe748779c245a0fcaa5dd9383826273eff2"),
    "tensorflow": ("tensorflow/tensorflow", "06f3c933a97e015e5401acabaf853d3db804522b"),
    "torch": ("pytorch/pytorch", "53d8df9ddf6f4e9edfda96eb6616dc320b31c76f"),
    "torchaudio-wheel": ("torchaudio 2.11.0", ""),
    "torchaudio": ("pytorch/audio", "cd82ed6fb71e096dbf9dd9ce544e9a05f9ad2967"),
    "warp-ctc": ("baidu-research/warp-ctc", "94b2fa178347cf02757bdc7329dc2f1b46f5d094"),
    "warpctc-pytorch": ("SeanNaren/warp-ctc", "e2609d83b4de81c7c9c4804de490d1084655d3d9"),
    "warp-transducer": ("HawkAaron/warp-transducer", "f546575109111c455354861a0567c8aa794208a2"),
    "warprnnt_numba": ("titu1994/warprnnt_numba", "b1bc81e02dfb05143c3d55ac7b50c8131e85b194"),
}


@dataclass(frozen=True)
class Source:
    """A place in a library's code: a range of lines, or the name of a function where only that was noted."""

    repository: str
    commit: str
    path: str
    place: str

    @property
    def address(self):
        """Where it can be read; None for the files of a release."""
        if not self.commit:
            return None
        lines = "#L" + self.place.replace("-", "-L") if self.place[0].isdigit() else ""
        return f"https://github.com/{self.repository}/blob/{self.commit}/{self.path}{lines}"


def read_in(*places):
    """Sources from words such as ``"k2 k2/python/k2/rnnt_loss.py 193-213"``."""
    split = [place.split(maxsplit=2) for place in places]
    return tuple(Source(*REPOSITORIES[name], path, place) for name, path, place in split)


@dataclass(frozen=True)
class Row:
    """A quantity under two names.

    Attributes
    ----------
    key : str
        Its name, for the test that checks it.
    cells : tuple of str
        What the page says, in Markdown.
    to_ours, from_ours : callable, optional
        The conversion, in NumPy; neither is there if names are all that differs.
    sources : tuple of Source
    """

    key: str
    cells: tuple[str, ...]
    to_ours: Callable | None = None
    from_ours: Callable | None = None
    sources: tuple[Source, ...] = ()

    @property
    def converts(self):
        return self.to_ours is not None or self.from_ours is not None
