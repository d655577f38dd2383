"""Loaders of AN4, Speech Commands and LibriSpeech, on small folders of the same layout that the tests make."""

import hashlib
import http.server
import json
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from reference_impl.networks import training
from reference_impl.speech import corpus, public
from reference_impl.speech.features import log_mel

ROOT = Path(__file__).parent.parent
TONE = 0.25 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)


def sound(path, rate=16000, **written):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, TONE, rate, subtype="PCM_16", **written)


@pytest.fixture
def an4(tmp_path):
    """21 speakers for training; the transcripts of the test have no <s>."""
    folder = tmp_path / "an4"
    train = [(f"m{k:02d}", f"cen{k}-m{k:02d}-b") for k in range(21)]
    for speaker, name in train:
        sound(folder / "wav" / "an4_clstk" / speaker / f"{name}.sph", format="NIST")
    sound(folder / "wav" / "an4test_clstk" / "fcaw" / "an406-fcaw-b.sph", format="NIST")
    (folder / "etc").mkdir()
    (folder / "etc" / "an4_train.transcription").write_text(
        "".join(f"<s> G L E N N </s> ({name})\n" for _, name in train), encoding="utf-8")
    (folder / "etc" / "an4_test.transcription").write_text("RUBOUT  G M E F (an406-fcaw-b)\n", encoding="utf-8")
    return folder


@pytest.fixture
def speech_commands(tmp_path):
    folder = tmp_path / "speech_commands"
    for name in ("yes/aaaa_nohash_0.wav", "no/bbbb_nohash_0.wav", "no/cccc_nohash_1.wav",
                 "_background_noise_/hum.wav"):
        sound(folder / name)
    (folder / "validation_list.txt").write_text("no/bbbb_nohash_0.wav\n", encoding="utf-8")
    (folder / "testing_list.txt").write_text("yes/aaaa_nohash_0.wav\n", encoding="utf-8")
    return folder


@pytest.fixture
def librispeech(tmp_path):
    folder = tmp_path / "LibriSpeech"
    for part, speaker in (("train-clean-100", 19), ("dev-clean", 84), ("dev-other", 85), ("test-clean", 61)):
        chapter = folder / part / str(speaker) / "7"
        for k in range(2):
            sound(chapter / f"{speaker}-7-000{k}.flac")
        (chapter / f"{speaker}-7.trans.txt").write_text(
            f"{speaker}-7-0000 MISTER QUILTER'S MANNER\n{speaker}-7-0001 NOR IS\n", encoding="utf-8")
    return folder


def test_an4(an4):
    parts = {part: public.utterances(part, an4) for part in ("train", "validation", "test")}
    assert [len(found) for found in parts.values()] == [18, 3, 1]
    assert {each.voice for each in parts["validation"]} == {"m00", "m10", "m20"}
    assert {each.text for each in parts["train"]} == {"g l e n n"}
    assert parts["test"][0].text == "rubout g m e f" and parts["test"][0].name == "an406-fcaw-b"


def test_an4_without_a_recording(an4):
    (an4 / "wav" / "an4_clstk" / "m03" / "cen3-m03-b.sph").unlink()
    with pytest.raises(ValueError, match="'cen3-m03-b' is in the transcripts"):
        public.utterances("train", an4)


def test_speech_commands(speech_commands):
    found = {part: [(each.text, each.voice) for each in public.utterances(part, speech_commands)]
             for part in ("train", "validation", "test")}
    assert found == {"train": [("no", "cccc")], "validation": [("no", "bbbb")], "test": [("yes", "aaaa")]}


def test_librispeech(librispeech):
    parts = {part: public.utterances(part, librispeech) for part in ("train", "validation", "test")}
    assert [len(found) for found in parts.values()] == [2, 4, 2]
    assert parts["test"][0].text == "mister quilter's manner" and parts["test"][0].voice == "61"


def test_recordings_come_at_one_rate(librispeech):
    for rate in (8000, 16000):
        each = public.utterances("test", librispeech, rate=rate)[0]
        assert each.rate == rate and each.samples.dtype == np.float32 and len(each.samples) == rate
        loudest = np.abs(np.fft.rfft(each.samples)).argmax()  # a second, so the bins are Hz
        assert loudest == 440


def test_two_channels_are_refused(librispeech):
    path = next(librispeech.glob("test-clean/*/*/*.flac"))
    soundfile.write(path, np.stack([TONE, TONE], axis=1), 16000)
    with pytest.raises(ValueError, match="2 channels; expected 1"):
        public.utterances("test", librispeech)


def test_a_limit_draws_the_same_each_time(an4):
    first, again, other = (public.utterances("train", an4, limit=5, seed=seed) for seed in (0, 0, 1))
    names = [each.name for each in first]
    assert len(names) == 5 and names == [each.name for each in again]
    assert names != [each.name for each in other]
    assert len(public.utterances("train", an4, limit=99)) == 18


def test_the_synthetic_corpus_comes_the_same_way(request):
    folder = request.config.rootpath / "data" / "speech"
    one = public.utterances("test", folder, limit=3)
    assert len(one) == 3 and one[0].words
    assert log_mel(one[0].samples, one[0].rate).shape[1] == 40


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected data/speech of the book, an4, Speech"):
        public.utterances("test", tmp_path)


def test_a_part_that_is_none(an4):
    with pytest.raises(ValueError, match="part = 'dev'"):
        public.utterances("dev", an4)


@pytest.fixture
def served(an4, tmp_path, monkeypatch):
    """An archive of the small AN4 on a server of this machine, in the place of the real one; yields its requests."""
    site = tmp_path / "site"
    site.mkdir()
    with tarfile.open(site / "an4_sphere.tar.gz", "w:gz") as archive:
        archive.add(an4, "an4")
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(site))

        def log_message(self, form, *values):
            requests.append(form % values)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    digest = hashlib.sha256((site / "an4_sphere.tar.gz").read_bytes()).hexdigest()
    url = f"http://127.0.0.1:{server.server_port}/an4_sphere.tar.gz"
    monkeypatch.setitem(public.ARCHIVES, "an4", public.Archive(url, digest, "an4", 64))
    yield requests
    server.shutdown()
    server.server_close()
    thread.join()


def test_download_fetches_once_and_unpacks(served, tmp_path, capfd):
    cache = tmp_path / "cache"
    for _ in range(2):
        folder = public.download("an4", cache)
        assert len(public.utterances("train", folder)) == 18
    assert len(served) == 1
    assert "100%" in capfd.readouterr().err  # the bar


def test_download_without_a_bar(served, tmp_path, capfd):
    public.download("an4", tmp_path / "cache", progress=False)
    assert "%" not in capfd.readouterr().err


def test_another_checksum_is_refused(served, tmp_path, monkeypatch):
    known = public.ARCHIVES["an4"]
    monkeypatch.setitem(public.ARCHIVES, "an4", public.Archive(known.url, "0" * 64, "an4", 64))
    with pytest.raises(ValueError, match="hash"):
        public.download("an4", tmp_path / "cache", progress=False)


def test_without_a_network(tmp_path, monkeypatch):
    known = public.ARCHIVES["an4"]
    monkeypatch.setitem(public.ARCHIVES, "an4", public.Archive("http://127.0.0.1:9/an4_sphere.tar.gz", known.sha256,
                                                               "an4", 64))
    with pytest.raises(public.CannotDownload, match=r"an4_sphere.tar.gz \(64 MB\) could not be fetched.*put the "
                                                    r"archive at .*cache.an4_sphere.tar.gz"):
        public.download("an4", tmp_path / "cache", progress=False)


def test_a_name_that_is_none(tmp_path):
    with pytest.raises(ValueError, match="name = 'wsj'; expected one of an4"):
        public.download("wsj", tmp_path)


def test_checksums_are_whole():
    for archive in public.ARCHIVES.values():
        assert len(archive.sha256) == 64 and int(archive.sha256, 16) and archive.url.startswith("https://")


# --- a chapter on another corpus ---


@pytest.fixture
def spoken_an4(tmp_path):
    """Utterances of the book's corpus in the layout of AN4, commands and number strings, without their true times."""
    folder = tmp_path / "an4"
    (folder / "etc").mkdir(parents=True)
    for part, wav in (("train", "an4_clstk"), ("test", "an4test_clstk")):
        lines = []
        for said in corpus.load(part, ROOT / "data" / "speech")[::12]:
            path = folder / "wav" / wav / said.voice / f"{said.name.replace('/', '-')}.sph"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, said.samples, said.rate, subtype="PCM_16", format="NIST")
            lines.append(f"<s> {said.text.upper()} </s> ({path.stem})\n")
        (folder / "etc" / f"an4_{part}.transcription").write_text("".join(lines), encoding="utf-8")
    return folder


def code_of(notebook):
    cells = json.loads((ROOT / "notebooks" / notebook).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_a_chapter_runs_on_the_corpus_that_the_environment_names(spoken_an4, monkeypatch):
    """Every code cell of the chapter in which CTC hears, with fewer steps that really train."""
    calls, step = [], training.take_step
    monkeypatch.setenv("SPEECH_CORPUS", str(spoken_an4))
    monkeypatch.chdir(ROOT / "notebooks")
    monkeypatch.setattr(training, "take_step", lambda *batch, **options: (
        calls.append(1), step(*batch, **options) if len(calls) % 50 == 1 else 1.0)[1])
    names = {"__name__": "chapter"}
    for cell in code_of("66_ctc_hears.ipynb"):
        exec(compile(cell, "66_ctc_hears", "exec"), names)
    said = names["said"]
    assert len(calls) > 500 and names["KIND"] == "recorded"
    assert not any(each.words for each in said["test"]) and {each.rate for each in said["test"]} == {8000}
    assert {each.voice for each in said["train"]} < {
        each.voice for each in corpus.load("train", ROOT / "data" / "speech")}


def test_the_folder_of_the_corpus(monkeypatch):
    monkeypatch.delenv("SPEECH_CORPUS", raising=False)
    assert public.corpus_folder("there") == Path("there")
    monkeypatch.setenv("SPEECH_CORPUS", "")
    assert public.corpus_folder("there") == Path("there")
    monkeypatch.setenv("SPEECH_CORPUS", "~/an4")
    assert public.corpus_folder("there") == Path.home() / "an4"
