"""The speech player: its HTML holds what was given, and its script in node says what Python says.

Recording, spectrogram and table are decoded by other libraries than those that wrote them. Node is the one that
playwright brings along. The player in a browser: tests/website/test_player.py.
"""

import base64
import io
import itertools
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
from bs4 import BeautifulSoup
from PIL import Image
from players import ROOT, STATES, STATIC, STEP, made_up, shown, utterances
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from reference_impl.speech import player
from reference_impl.speech.corpus import Span
from reference_impl.speech.drawing import LEVELS, ROW, png, steps, wav
from reference_impl.speech.features import log_mel
from reference_impl.speech.letters import BLANK, NUM_SYMBOLS, SYMBOLS, labels_of
from reference_impl.speech.rooms import Place

sys.path.append(str(ROOT / "book" / "_ext"))
SVG = {"svg": "http://www.w3.org/2000/svg"}


@pytest.fixture(scope="module")
def said():
    return utterances(1)[0]


@pytest.fixture(scope="module")
def soup(said):
    return BeautifulSoup(shown(said).html, "html.parser")


def bytes_of(address):
    return base64.b64decode(address.partition("base64,")[2])


def data_of(soup):
    return json.loads(soup.select_one("script[type='application/json']").string)


def read_by_groups(probabilities):
    """(label, frame) of the best path without repeats and blanks, by another way than the player's."""
    best = probabilities.argmax(-1).tolist()
    runs = [list(run) for _, run in itertools.groupby(enumerate(best), key=lambda each: each[1])]
    return [(run[0][1], run[0][0]) for run in runs if run[0][1] != BLANK]


# --- what Python writes ---


def test_the_recording_is_the_one_that_was_given(said, soup):
    samples, rate = soundfile.read(io.BytesIO(bytes_of(soup.audio["src"])))
    assert rate == said.rate
    np.testing.assert_allclose(samples, said.samples, rtol=0, atol=2**-15)


def test_a_microphone_s_recording_is_played_instead(said):
    heard = Place(snr=5.0, gain=4.0, seed=1).heard(said.samples, said.rate)
    assert np.abs(heard).max() > 1  # it has to be turned down
    found = BeautifulSoup(shown(said, samples=heard).html, "html.parser")
    samples, _ = soundfile.read(io.BytesIO(bytes_of(found.audio["src"])))
    np.testing.assert_allclose(samples * np.abs(heard).max(), heard, rtol=0, atol=1e-4)


def test_a_recording_of_any_length_is_a_wav_file():
    for samples in ([], [1.0], [-1.0, 1.0, 0.5]):
        heard, rate = soundfile.read(io.BytesIO(wav(samples, 16000)))
        np.testing.assert_allclose(heard, samples, rtol=0, atol=2**-15)
        assert rate == 16000


@pytest.mark.parametrize("shape", [(5, 3), (6, 2), (1, 1)])
def test_the_spectrogram_is_the_frames(shape):
    """Low bands at the bottom, time to the right, loud is black; both parities of the width, as 4 bits make pairs."""
    frames = np.random.default_rng(0).uniform(0, 8, shape)
    grey = np.asarray(Image.open(io.BytesIO(png(frames))).convert("L")) / 255
    assert grey.shape == shape[::-1]
    spread = max(np.ptp(frames), 1e-9)
    expected = 1 - (frames - frames.min()) / spread
    np.testing.assert_allclose(grey[::-1].T, expected, rtol=0, atol=0.5 / 15 + 1e-3)


def test_the_spectrogram_of_the_page_is_that_of_the_recording(said, soup):
    (drawn,) = soup.select("image.player-sound")
    content = bytes_of(drawn["href"])
    assert content == png(log_mel(said.samples, said.rate)) and len(content) < 4000
    start, wide = float(drawn["x"].rstrip("%")), float(drawn["width"].rstrip("%"))
    assert start == pytest.approx(100 * 0.0075 / said.seconds, abs=0.01)  # a window of 25 ms begins at 0
    assert wide == pytest.approx(100 * len(log_mel(said.samples, said.rate)) * 0.01 / said.seconds, abs=0.01)


def heights(path):
    """Shares by row and frame of the outline that `steps` draws, walked along by its letters."""
    found, t, base, y = {}, 0, None, None
    for kind, text in re.findall(r"([MHVZ ])([\d.]*)", path):
        number = math.ceil(float(text or 0))
        if kind == "M":
            t = number
        elif kind == " ":
            base = y = number
        elif kind == "V":
            y = number
        elif kind == "H":
            found.update({(base, at): base - y for at in range(t, number)})
            t = number
    return found


def test_curves_are_the_probabilities(said, soup):
    """Every state, row and frame, to half a level."""
    probabilities, data = made_up(said), data_of(soup)
    rows = [labels_of(letter)[0] for letter in data["letters"][:-1]] + [BLANK]
    groups = soup.select("g.player-state")
    assert len(groups) == len(STATES) == len(data["states"])
    for name, group in zip(STATES, groups, strict=True):
        found = heights(group.select_one(".player-labels")["d"]) | heights(group.select_one(".player-blank")["d"])
        drawn = np.array([[found[2 * ROW * (r + 1), t] for r in range(len(rows))]
                          for t in range(len(probabilities[name]))]) / LEVELS
        np.testing.assert_allclose(drawn, probabilities[name][:, rows], rtol=0, atol=0.5 / LEVELS + 1e-9)
        wide, high = (float(each) for each in group.svg["viewbox"].split()[2:])
        assert wide == pytest.approx(said.seconds / STEP, rel=1e-5) and high == 2 * ROW * len(rows)
        ends = [float(each) for each in re.findall(r"H([\d.]+)", group.select_one(".player-labels")["d"])]
        assert max(ends) <= wide + 1e-9  # the last frame ends after the recording


def test_a_letter_stands_beside_its_curve_and_within_the_picture(said):
    """It begins where the row's probability has fallen; one read at the very end stands left of that."""
    rows = np.zeros((59, NUM_SYMBOLS))
    rows[:, BLANK] = 1
    label = labels_of("n")[0]
    for t, share in ((10, 0.9), (11, 0.8), (12, 0.2), (13, 0.05), (58, 0.9)):
        rows[t, [label, BLANK]] = share, 1 - share
    made = player.show(said, log_mel(said.samples, said.rate), rows, seconds_a_frame=STEP)
    first, last = BeautifulSoup(made.html, "html.parser").select(".player-marks text")
    assert float(first["x"].rstrip("%")) == pytest.approx(100 * 13 * STEP / said.seconds, abs=0.01)
    assert "text-anchor" not in first.attrs and last["text-anchor"] == "end"
    assert float(last["x"].rstrip("%")) == pytest.approx(100 * 59 * STEP / said.seconds, abs=0.01)


def test_an_outline_of_extremes():
    assert heights(steps([1.0, 0.0, 1.0], 40)) == {(40, 0): LEVELS, (40, 1): 0, (40, 2): LEVELS}
    assert steps([0.0], 40) == "M0 40H1Z" and steps([1.0], 40).endswith("H1V40Z")


def test_the_last_state_is_seen_and_no_other(soup):
    assert [group.get("display") for group in soup.select("g.player-state")] == ["none", "none", None]


def test_words_stand_where_they_are_said(said, soup):
    boxes = soup.select(".player-plot > rect")
    texts = [text.get_text() for text in soup.select(".player-plot > text[text-anchor=middle]")]
    assert texts[:len(said.words)] == [word.name for word in said.words] and len(boxes) == len(said.words)
    for box, word in zip(boxes, said.words, strict=True):
        start, wide = (float(box[at].rstrip("%")) / 100 * said.seconds for at in ("x", "width"))
        assert (start, start + wide) == pytest.approx((word.start, word.end), abs=3e-4)


def test_rows_are_the_letters_of_the_text_and_what_was_read(said, soup):
    data = data_of(soup)
    read = {SYMBOLS[label] for each in made_up(said).values() for label, _ in read_by_groups(each)}
    assert data["letters"][:-1][:len(set(said.text))] == list(dict.fromkeys(said.text))
    assert set(data["letters"][:-1]) == set(said.text) | read and data["blank"] == len(data["letters"]) - 1
    names = [text.get_text() for text in soup.select(".player-name")]
    assert names == [letter.replace(" ", "␣") for letter in data["letters"][:-1]] + ["∅"]


def test_the_table_is_what_was_read(said, soup):
    """Labels and frames by another way, the word by looking for the middle of the frame in all words."""
    probabilities = made_up(said)
    tables = soup.select("details table")
    assert len(tables) == len(STATES)
    for name, table in zip(STATES, tables, strict=True):
        read = read_by_groups(probabilities[name])
        text = "".join(SYMBOLS[label] for label, _ in read)
        assert table.caption.get_text() == f"{name}: reads “{text}”" and text
        rows = [[cell.get_text() for cell in row.select("td")] for row in table.select("tbody tr")]
        for (letter, since, share, word), (label, frame) in zip(rows, read, strict=True):
            assert letter.startswith("␣" if SYMBOLS[label] == " " else SYMBOLS[label])
            assert since == f"{frame * STEP:.2f} s" and share == f"{probabilities[name][frame, label]:.2f}"
            during = [each.name for each in said.words if each.start <= (frame + 0.5) * STEP < each.end]
            assert word == (during[0] if during else "–")


def test_every_player_says_that_its_speech_is_synthetic(said):
    """On the page, in the picture of the PDF and in a terminal; of a real corpus something else is said."""
    for source, about in (({}, f"synthetic speech, said: “{said.text}”"), ({"source": ""}, f"said: “{said.text}”"),
                          ({"source": "AN4 <1>"}, f"AN4 <1>, said: “{said.text}”")):
        made = shown(said, **source)
        page = BeautifulSoup(made.html, "html.parser")
        assert page.select_one(".player-source").get_text() == about == made.text.splitlines()[0]
        assert about in [each.text for each in ElementTree.fromstring(made.svg).findall("svg:text", SVG)]


def test_nothing_read_is_said(said):
    silent = np.zeros((60, NUM_SYMBOLS))
    silent[:, BLANK] = 1
    made = player.show(said, log_mel(said.samples, said.rate), {"before": silent}, seconds_a_frame=STEP)
    soup = BeautifulSoup(made.html, "html.parser")
    assert soup.caption.get_text() == repr(made).splitlines()[-1] == "before: reads nothing"
    assert not soup.select("tbody")


def test_what_a_transducer_reads_is_given(said):
    """Two labels in one frame, which no best path has."""
    probabilities, g, o = made_up(said)[STATES[-1]], *labels_of("go").tolist()
    read = [player.Read(g, 20, 0.9), player.Read(o, 20, 0.8), player.Read(o, 31, 0.7)]
    made = shown(said, read={STATES[0]: read})
    soup = BeautifulSoup(made.html, "html.parser")
    first, *others = data_of(soup)["states"]
    names = data_of(soup)["letters"]
    assert [[names[row], frame, percent] for row, frame, percent in first["read"]] == [
        ["g", 20, 90], ["o", 20, 80], ["o", 31, 70]] and all("path" in each for each in others)
    assert soup.caption.get_text() == f"{STATES[0]}: reads “goo”"
    alone = player.show(said, log_mel(said.samples, said.rate), probabilities, seconds_a_frame=STEP, read=read)
    assert repr(alone).splitlines()[1:] == ["reads “goo”"]


def test_an_alignment_stands_below_the_words(said):
    aligned = [Span(word.name.upper(), word.start + 0.05, word.end) for word in said.words]
    soup = BeautifulSoup(shown(said, spans={"said": said.words, "aligned": aligned}).html, "html.parser")
    texts = [text.get_text() for text in soup.select(".player-plot > text")]
    assert [each for each in texts if each.isupper()] == [word.name.upper() for word in said.words]
    assert "aligned" in [text.get_text() for text in soup.select(".player-picture text")]
    assert soup.select("tbody tr")[-1].select("td")[-1].get_text().islower()  # the table keeps to the first row


def test_text_is_escaped(said):
    evil = '</script><b title="x">&'
    symbols = ["<i>" if symbol == "n" else symbol for symbol in SYMBOLS]
    probabilities = {evil: made_up(said)[STATES[-1]]}
    told = replace(said, text=f"{said.text}{evil}", words=(Span(evil, 0.1, 0.2), *said.words))
    made = player.show(told, log_mel(said.samples, said.rate), probabilities, symbols, seconds_a_frame=STEP, title=evil)
    soup = BeautifulSoup(made.html, "html.parser")
    assert not soup.select("b, i") and len(soup.select("script")) == 1
    assert data_of(soup)["states"][0]["name"] == evil and "<i>" in data_of(soup)["letters"]
    assert evil in soup.select_one(".player-title").get_text() and soup.caption.get_text().startswith(evil)
    assert not {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(made.svg).iter()} & {"b", "i"}


def test_arguments_are_checked(said):
    frames, right = log_mel(said.samples, said.rate), made_up(said)[STATES[-1]]

    def refused(message, probabilities=right, frames=frames, **options):
        with pytest.raises(ValueError, match=message):
            player.show(said, frames, probabilities, **{"seconds_a_frame": STEP} | options)

    refused(r"seconds_a_frame = 0; expected a number > 0", seconds_a_frame=0)
    refused("seconds_a_frame = 0.02; expected 59 frames to cover the recording of 1.79 s", seconds_a_frame=0.02)
    refused("none to begin after its end", seconds_a_frame=0.04)
    refused(r"probabilities\['x'\] has shape \(59, 28\); expected \(T, V = 29\)", {"x": right[:, 1:]})
    refused(r"probabilities\[0, 0\] = 2.0; expected a probability", 2 * np.eye(29)[[0] * 59])
    refused(r"probabilities\[3, 4\] = nan", np.where(np.arange(59 * 29).reshape(59, 29) == 3 * 29 + 4, np.nan, right))
    refused("frames has shape", frames=frames[:100])
    refused(r"read has the states \['y'\]", {"x": right}, read={"y": []})
    refused("one at least", {})
    refused(r"read\[1\] = \(0, 3, 0.5\); expected a label below V = 29 other than the blank",
            read=[(5, 2, 0.5), (0, 3, 0.5)])
    refused("read is out of order", read=[(5, 3, 0.5), (5, 2, 0.5)])
    before = right.copy()
    player.show(said, frames, right, seconds_a_frame=STEP)
    np.testing.assert_array_equal(right, before)


def test_the_picture_of_the_pdf_is_svg_by_itself(said):
    """It names every state, and has no class on which its look would depend."""
    found = ElementTree.fromstring(shown(said)._repr_svg_())  # which is strict
    assert found.tag == "{http://www.w3.org/2000/svg}svg"
    texts = " ".join(text.text for text in found.findall("svg:text", SVG))
    assert all(f"{name}: reads" in texts for name in STATES) and f"synthetic speech, said: “{said.text}”" in texts
    assert len(found.findall(".//svg:image", SVG)) == 1
    shown_last = [each for each in found.iterfind(".//svg:g", SVG) if each.get("class") == "player-state"]
    assert [each.get("display") for each in shown_last] == ["none", "none", None]


def test_four_recordings_in_three_states_are_small():
    made = [shown(each) for each in utterances(4)]
    files = sum((STATIC / f"speech_player{end}").stat().st_size for end in (".js", "_math.js", ".css"))
    assert sum(len(each.html.encode()) for each in made) + files < 400_000
    assert files < 30_000


def test_the_same_arguments_make_the_same_bytes(said):
    assert shown(said) == shown(said)


# --- what the script makes of it ---

HEAD = f"""
const P = require({json.dumps(str(STATIC / "speech_player_math.js"))});
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answer = (each) => {{ ANSWER }};
console.log(JSON.stringify(given.map(answer)));
"""


def node(answer, given):
    """What a line of JavaScript returns for each of the given."""
    driver = pytest.importorskip("playwright._impl._driver", reason="playwright brings node along")
    done = subprocess.run([str(driver.compute_driver_executable()[0]), "-e", HEAD.replace("ANSWER", answer)],
                          input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_collapses_as_ctc_does():
    """All paths of five frames and three symbols, whichever is the blank."""
    paths = [list(path) for path in itertools.product(range(3), repeat=5)]
    for blank in range(3):
        found = node(f"return P.collapse(each, {blank}).map(({{row, frame}}) => [row, frame]);", paths)
        for path, ours in zip(paths, found, strict=True):
            runs = [list(run) for _, run in itertools.groupby(enumerate(path), key=lambda each: each[1])]
            assert ours == [[run[0][1], run[0][0]] for run in runs if run[0][1] != blank]


def test_python_collapses_as_ctc_does():
    for path in itertools.product(range(3), repeat=5):
        probabilities = 0.1 + 0.7 * np.eye(3)[list(path)]
        for blank in range(3):
            found = player.collapsed(probabilities, blank=blank)
            expected = [label for label, _ in itertools.groupby(path) if label != blank]
            assert [one.label for one in found] == expected
            for one, later in itertools.zip_longest(found, found[1:]):
                assert path[one.frame] == one.label and one.probability == pytest.approx(0.8)
                assert one.frame == 0 or path[one.frame - 1] != one.label
                assert later is None or one.frame < later.frame


def test_the_script_reads_what_the_table_says(soup):
    data = data_of(soup)
    read = node("return P.textOf(P.readOf(each.state, each.data.blank), each.data.letters);",
                [{"data": data, "state": state} for state in data["states"]])
    captions = [table.caption.get_text() for table in soup.select("details table")]
    assert captions == [f"{name}: reads “{text}”" for name, text in zip(STATES, read, strict=True)]


def test_time_to_frame():
    """Each frame from its start, also where the browser rounds to microseconds, up to just before the next."""
    step, count = 0.03, 60
    times = [(t * step + shift, t) for t in range(count) for shift in (0, 1e-6, -1e-6, 0.0299)]
    times += [(-1, 0), (1.8, 59), (100, 59)]
    found = node(f"return P.frameAt(each, {step}, {count});", [time for time, _ in times])
    assert found == [frame for _, frame in times]
    assert node("return P.frameCount(each);", [{"seconds": 1.8, "step": 0.03}, {"seconds": 1.79, "step": 0.03},
                                               {"seconds": 0.001, "step": 0.03}]) == [60, 60, 1]


def test_letters_light_up_at_their_frames():
    read = [{"row": 0, "frame": 2}, {"row": 1, "frame": 2}, {"row": 0, "frame": 7}]
    found = node("return P.litCount(each.read, each.frame);",
                 [{"read": read, "frame": frame} for frame in (0, 1, 2, 6, 7, 50, None)])
    assert found == [0, 0, 2, 2, 3, 3, 3]


def test_what_is_heard_in_a_frame():
    data = {"seconds": 0.15, "step": 0.03, "blank": 2, "letters": ["g", " ", "∅"]}
    by_path = {"name": "", "path": [2, 0, 0, 1, 2], "percent": [99, 97, 60, 55, 100]}
    by_read = {"name": "", "read": [[0, 1, 97], [1, 1, 50], [0, 3, 80]]}
    times = [0, 0.03, 0.09, 0.12, 0.15]
    ask = "return P.said(each.data, each.state, each.time);"
    assert node(ask, [{"data": data, "state": by_path, "time": time} for time in times]) == [
        "0.00 s, hears the blank, 0.99", "0.03 s, hears g, 0.97", "0.09 s, hears a space, 0.55",
        "0.12 s, hears the blank, 1.00", "0.15 s, hears the blank, 1.00"]
    assert node(ask, [{"data": data, "state": by_read, "time": time} for time in times[:3]]) == [
        "0.00 s, hears the blank", "0.03 s, hears g a space", "0.09 s, hears g, 0.80"]


# --- what Sphinx makes of it ---


@pytest.fixture(scope="module")
def built(said, tmp_path_factory):
    """A small book with one page that has a player, and one that has none; nothing is run."""
    folder = tmp_path_factory.mktemp("book")
    made = shown(said)
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {},
              "data": {"text/html": made.html, "image/svg+xml": made.svg, "text/plain": made.text}}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for name, outputs in (("index", []), ("heard", [output])):
        source = f"# {name}" if outputs else f"# {name}\n\n```{{toctree}}\nheard\n```"
        heading = {"cell_type": "markdown", "id": "h", "source": source, "metadata": {}}
        cell = {"cell_type": "code", "id": "c", "source": "player.show()", "metadata": {}, "execution_count": 1,
                "outputs": outputs}
        notebook = {"cells": [heading, cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    settings = {"extensions": ["myst_nb", "speech_player"], "nb_execution_mode": "off",
                "html_static_path": [str(STATIC)], "nb_mime_priority_overrides": [["latex", "image/svg+xml", 15]],
                "source_suffix": {".ipynb": "myst-nb"}}
    warnings = StringIO()
    for builder in ("html", "latex"):
        with docutils_namespace():
            Sphinx(folder, None, folder / builder, folder / "trees", builder, settings, None, warnings).build()
    return folder


def test_a_page_with_a_player_loads_its_files_and_no_other_page(built):
    pages = {name: BeautifulSoup((built / "html" / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
             for name in ("heard", "index")}
    loaded = {name: {each.get("src", each.get("href", "")).partition("?")[0].rpartition("/")[2]
                     for each in page.select("script, link")} for name, page in pages.items()}
    files = {"speech_player_math.js", "speech_player.js", "speech_player.css"}
    assert files <= loaded["heard"] and not files & loaded["index"]
    assert all((built / "html" / "_static" / name).is_file() for name in files)
    assert len(pages["heard"].select(".speech-player audio, .speech-player table")) == 1 + len(STATES)
    assert not pages["heard"].select(".cell_output img")  # the picture of the PDF stays there


def test_the_pdf_has_the_picture(built):
    (tex,) = (built / "latex").glob("*.tex")
    assert r"\sphinxincludegraphics" in tex.read_text(encoding="utf-8") and list((built / "latex").glob("*.svg"))
    assert "audio" not in tex.read_text(encoding="utf-8")
