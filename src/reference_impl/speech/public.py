"""Real public corpora in their usual layout, read into the same utterances as the synthetic one. No features.

AN4 (Carnegie Mellon, spelled words and numbers, an hour), Speech Commands (Google, single words) and LibriSpeech (read
books). ``utterances`` sees by the files in a folder which corpus it holds, so a chapter runs on any of them;
``download`` fetches one, with its checksum, a progress bar and a cache. pooch does that.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import resample_poly

from . import corpus
from .corpus import Utterance, check_part

__all__ = ["ARCHIVES", "Archive", "CannotDownload", "corpus_folder", "download", "utterances"]


@dataclass(frozen=True)
class Archive:
    """Where an archive is, its SHA-256, and the folder that it unpacks into; "" if its files lie at the top."""

    url: str
    sha256: str
    folder: str
    megabytes: int


_LIBRISPEECH = "https://www.openslr.org/resources/12/"
#: The checksums of Speech Commands and LibriSpeech are those of torchaudio's datasets, read at commit 0103a7a. That of
#: AN4 stands in a public training script; CMU publishes none.
ARCHIVES = {
    "an4": Archive("https://dldata-public.s3.us-east-2.amazonaws.com/an4_sphere.tar.gz",
                   "a0525579493735d32b60fb6fa5975dd0eaacde087b0a4eeb7f13b7ef33077b12", "an4", 64),
    "speech_commands": Archive("https://storage.googleapis.com/download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
                               "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58", "", 2429),
    "librispeech/dev-clean": Archive(_LIBRISPEECH + "dev-clean.tar.gz",
                                     "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
                                     "LibriSpeech", 338),
    "librispeech/test-clean": Archive(_LIBRISPEECH + "test-clean.tar.gz",
                                      "39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23",
                                      "LibriSpeech", 347),
    "librispeech/train-clean-100": Archive(_LIBRISPEECH + "train-clean-100.tar.gz",
                                           "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",
                                           "LibriSpeech", 6387),
}


class CannotDownload(OSError):
    """An archive could not be fetched; says where to put it by hand."""


def download(name, cache, *, progress=True) -> Path:
    """Fetch and unpack a corpus into ``cache/NAME``, unless it is there; returns the folder for :func:`utterances`.

    Parameters
    ----------
    name : str
        A key of :data:`ARCHIVES`. LibriSpeech comes in parts, which share a folder.
    cache : path
        Archives are kept in it, too, and not fetched again.
    progress : bool
        Whether a bar shows how far it is.

    Raises
    ------
    CannotDownload
        Without a network, or if the server does not answer.
    ValueError
        If the name is unknown, or what came has another checksum.
    """
    import pooch

    if name not in ARCHIVES:
        raise ValueError(f"name = {name!r}; expected one of {', '.join(ARCHIVES)}")
    archive, cache = ARCHIVES[name], Path(cache)
    pooch.get_logger().setLevel("WARNING")  # the bar says what it does
    file, target = archive.url.rsplit("/", 1)[1], cache / name.split("/")[0]
    try:
        pooch.retrieve(archive.url, f"sha256:{archive.sha256}", fname=file, path=cache, progressbar=progress,
                       processor=pooch.Untar(extract_dir=name.split("/")[0]))
    except OSError as error:  # requests' errors are OSErrors
        raise CannotDownload(
            f"{archive.url} ({archive.megabytes} MB) could not be fetched: {type(error).__name__}. Without a network, "
            f"put the archive at {cache / file} and call this again, or give `utterances` the folder of an unpacked "
            "copy") from error
    return target / archive.folder


def corpus_folder(default) -> Path:
    """The folder that the environment variable ``SPEECH_CORPUS`` names, or else ``default``.

    So a chapter runs on another corpus without a change: ``SPEECH_CORPUS=/path/to/an4 make lab``.

    Examples
    --------
    >>> corpus_folder("data/speech").name
    'speech'
    """
    return Path(os.environ.get("SPEECH_CORPUS") or default).expanduser()


def utterances(part, folder, *, limit=None, rate=8000, seed=0) -> list[Utterance]:
    """Utterances of a corpus, whichever a folder holds, at one rate.

    Parameters
    ----------
    part : "train" | "validation" | "test"
        Of LibriSpeech the folders that begin with train, dev and test; of AN4 the training speakers, every tenth of
        them (validation), and the test speakers; of Speech Commands what its two lists say, and the rest (train).
    folder : path
        ``data/speech`` of this repository, or the unpacked ``an4``, Speech Commands or ``LibriSpeech``.
    limit : int, optional
        At most so many, drawn at random: a large corpus does not fit the memory. They keep their order.
    rate : int
        Samples a second; other recordings are resampled.
    seed : int
        Of the draw.

    Raises
    ------
    FileNotFoundError
        If the folder is no such corpus.
    ValueError
        If a recording has more than one channel, or a transcript names a recording that is not there.
    """
    check_part(part)
    folder = Path(folder)
    if (folder / corpus.LISTED).is_file():
        found = corpus.load(part, folder)
        return [at_rate(found[k], rate) for k in _drawn(len(found), limit, seed)]
    if (folder / "etc" / "an4_train.transcription").is_file():
        listed = _an4(part, folder)
    elif (folder / "validation_list.txt").is_file():
        listed = _speech_commands(part, folder)
    elif any(folder.glob("*/*/*/*.trans.txt")):
        listed = _librispeech(part, folder)
    else:
        raise FileNotFoundError(f"folder = {str(folder)!r}; expected data/speech of the book, an4, Speech Commands or "
                                "LibriSpeech, unpacked")
    listed = sorted(listed)
    return [_read(*listed[k], rate) for k in _drawn(len(listed), limit, seed)]


def _drawn(count, limit, seed):
    if limit is None or limit >= count:
        return range(count)
    return sorted(np.random.default_rng(seed).choice(count, size=limit, replace=False))


def _an4(part, folder) -> Iterable[tuple]:
    """(file, speaker, text): lines "<s> G L E N N </s> (cen2-mgah-b)"; a recording is named after its speaker, too."""
    test = part == "test"
    lines = (folder / "etc" / f"an4_{'test' if test else 'train'}.transcription").read_text("utf-8").splitlines()
    sounds = {path.stem: path for path in (folder / "wav" / ("an4test_clstk" if test else "an4_clstk")).glob("*/*.*")}
    speakers = sorted({path.parent.name for path in sounds.values()})
    held_out = set(speakers[::10])
    for line in filter(str.strip, lines):
        said, name = re.fullmatch(r"\s*(.*?)\s*\(([^()]+)\)\s*", line).groups()
        if name not in sounds:
            raise ValueError(f"{name!r} is in the transcripts of {str(folder)!r}, and not among its recordings")
        speaker = sounds[name].parent.name
        if test or (speaker in held_out) == (part == "validation"):
            yield sounds[name], speaker, re.sub(r"</?s>|<sil>|\+\+\w+\+\+", " ", said)


def _speech_commands(part, folder):
    """(file, speaker, text): a word is the name of its folder, and a file's name begins with the speaker."""
    lists = {each: set((folder / file).read_text("utf-8").split())
             for each, file in (("validation", "validation_list.txt"), ("test", "testing_list.txt"))}
    for path in folder.glob("[a-z]*/*.wav"):  # not _background_noise_
        name = f"{path.parent.name}/{path.name}"
        where = next((each for each, names in lists.items() if name in names), "train")
        if where == part:
            yield path, path.stem.split("_")[0], path.parent.name


def _librispeech(part, folder):
    """(file, speaker, text): SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt has lines "1272-128104-0000 MISTER QUILTER"."""
    prefix = {"train": "train", "validation": "dev", "test": "test"}[part]
    for listed in folder.glob(f"{prefix}-*/*/*/*.trans.txt"):
        for line in listed.read_text("utf-8").splitlines():
            name, _, text = line.partition(" ")
            yield listed.parent / f"{name}.flac", name.split("-")[0], text


def _read(path, speaker, text, rate):
    samples, recorded = soundfile.read(path, dtype="float32", always_2d=True)
    if samples.shape[1] != 1:
        raise ValueError(f"{path.name} has {samples.shape[1]} channels; expected 1")
    text = " ".join(text.lower().split())
    return at_rate(Utterance(path.stem, speaker, text, samples[:, 0], recorded), rate)


def at_rate(utterance, rate) -> Utterance:
    """The same utterance with so many samples a second."""
    if utterance.rate == rate:
        return utterance
    common = math.gcd(rate, utterance.rate)
    samples = resample_poly(utterance.samples, rate // common, utterance.rate // common).astype(np.float32)
    return Utterance(utterance.name, utterance.voice, utterance.text, samples, rate, utterance.words, utterance.phones)
