"""The synthetic corpus in data/speech: what its manifest says, against the sound."""

from pathlib import Path

import numpy as np
import pytest

from reference_impl.speech import corpus
from reference_impl.speech.letters import labels_of, spell

FOLDER = Path(__file__).parents[1] / "data" / "speech"


@pytest.fixture(scope="module")
def parts():
    return {part: corpus.load(part, FOLDER) for part in corpus.PARTS}


@pytest.fixture(scope="module")
def everything(parts):
    return [each for part in parts.values() for each in part]


def test_the_folder_has_what_its_readme_says(parts):
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for part, found in parts.items():
        voices, seconds = len({each.voice for each in found}), sum(each.seconds for each in found)
        assert f"| {part} | {voices} | {len(found)} | {seconds:,.0f} |" in readme
    assert f"{sum(map(len, parts.values())):,} utterances" in readme


def test_it_is_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 6.1e6


def test_no_voice_is_in_two_parts(parts):
    voices = [voice for found in parts.values() for voice in {each.voice for each in found}]
    assert len(voices) == len(set(voices))


def test_a_name_is_one_utterance(everything):
    assert len({each.name for each in everything}) == len(everything)


def test_samples(everything):
    for each in everything:
        assert each.rate == 8000 and each.samples.dtype == np.float32 and 0.5 < each.seconds < 6
        assert 0.02 < np.abs(each.samples).max() <= 1
        assert (each.samples * 512 == np.round(each.samples * 512)).all()


def test_every_sample_of_a_file_belongs_to_one_utterance(everything):
    import soundfile
    for path in FOLDER.glob("*.flac"):
        said = sum(len(each.samples) for each in everything if each.voice == path.stem)
        assert said == soundfile.info(path).frames


def test_words_are_those_of_the_text_and_follow_each_other(everything):
    for each in everything:
        assert [word.name for word in each.words] == each.text.split()
        for spans in (each.words, each.phones):
            times = [time for span in spans for time in (span.start, span.end)]
            assert all(span.end > span.start for span in spans), each.name
            assert times == sorted(times) and 0 <= times[0] and times[-1] <= each.seconds, each.name


def test_each_word_begins_and_ends_with_a_phone(everything):
    for each in everything:
        starts, ends = ({round(getattr(phone, at), 6) for phone in each.phones} for at in ("start", "end"))
        for word in each.words:
            assert round(word.start, 6) in starts and round(word.end, 6) in ends, (each.name, word)


def test_it_is_loud_within_the_words_and_silent_around_them(everything):
    """The times are true: nearly all of the energy is between the first word's start and the last one's end."""
    for each in everything:
        first, last = round(each.words[0].start * each.rate), round(each.words[-1].end * each.rate)
        energy = each.samples.astype(np.float64) ** 2
        assert energy[first:last].sum() > 0.9 * energy.sum(), each.name


def test_a_pause_is_quieter_than_speech(parts):
    """Of digits the vowel is loud: a boundary that were off by a word would not show it."""
    for each in parts["test"]:
        energy = each.samples.astype(np.float64) ** 2
        for word in each.words:
            inside = energy[round(word.start * each.rate):round(word.end * each.rate)]
            assert inside.max() > 0.02 * energy.max(), (each.name, word)


def test_letters_go_there_and_back(everything):
    for each in everything:
        assert spell(labels_of(each.text)) == each.text


@pytest.mark.parametrize("text", ["Go", "go, on", "1"])
def test_what_is_no_letter_is_refused(text):
    with pytest.raises(ValueError, match=r"text\[\d\] = .*; expected a letter in lower case"):
        labels_of(text)


def test_a_part_that_is_none():
    with pytest.raises(ValueError, match="part = 'dev'; expected one of train, validation, test"):
        corpus.load("dev", FOLDER)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected data/speech of the book's repository"):
        corpus.load("test", tmp_path)
