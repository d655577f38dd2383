"""The speech player in a browser, on a page that the tests make: it plays, steps, switches, prints, and is read aloud.

No chapter is needed. What is read is compared with the table, which Python wrote.
"""

import re

import pytest
from players import STATES, STEP, page, shown, utterances
from test_accessibility import AXE
from test_html import errors

FEW = 2
#: Two frames of Chromium's timers and one of the network: what may pass between a sound and its picture.
LATE = 0.1


@pytest.fixture(scope="module")
def said():
    return utterances(FEW)


@pytest.fixture(scope="module")
def address(said, tmp_path_factory):
    """A folder with the page, and the page without the script."""
    folder = tmp_path_factory.mktemp("players")
    players = [shown(each) for each in said]
    (folder / "players.html").write_text(page(players), encoding="utf-8")
    (folder / "bare.html").write_text(page(players, script=False), encoding="utf-8")
    return (folder / "players.html").as_uri()


@pytest.fixture
def opened(chromium, address):
    """Opens the page as a reader with these settings; whatever is requested beside it fails the test."""
    contexts, problems = [], []

    def open_page(name="players.html", **settings):
        context = chromium.new_context(**{"viewport": {"width": 1000, "height": 900}} | settings)
        contexts.append(context)
        tab = context.new_page()
        where = address.replace("players.html", name)
        tab.on("request", lambda r: r.url.startswith((where, "data:")) or problems.append(f"requests {r.url[:80]}"))
        tab.on("pageerror", lambda e: problems.append(f"script: {e}"))
        tab.on("console", lambda m: m.type == "error" and problems.append(f"console: {m.text}"))
        tab.goto(where)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert not problems


@pytest.fixture
def tab(opened):
    return opened()


def part(tab, name, number=0):
    return tab.locator(".speech-player").nth(number).locator(name)


def letters(tab, number=0):
    """What is read so far."""
    return "".join(part(tab, ".player-letters .player-lit", number).all_text_contents())


def table(tab, state=-1, number=0):
    """(label, seconds) of what was read, as Python wrote it."""
    rows = part(tab, "table", number).nth(state % len(STATES)).locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    return [(" " if row[0].startswith("␣") else row[0], float(row[1].split()[0])) for row in rows]


def until(tab, state, time, number=0):
    return "".join(letter for letter, since in table(tab, state, number) if since <= time + 1e-6)


def now(tab, number=0):
    return part(tab, ".player-now", number).inner_text()


def drawn(tab):
    """Which states are: a group of SVG is always visible to checkVisibility."""
    return part(tab, ".player-state").evaluate_all(
        "all => all.map(each => getComputedStyle(each).display !== 'none')")


def test_everything_is_seen_before_anything_is_played(tab):
    assert now(tab) == "not started" and letters(tab) == until(tab, -1, 99) != ""
    assert not part(tab, ".player-veil").is_visible() and part(tab, "audio").is_hidden()
    assert part(tab, ".player-source").inner_text().startswith("synthetic speech, said: “")
    assert part(tab, ".player-plain").is_hidden()


def test_it_plays_to_the_end(tab, said):
    """Letters come in their order, each when its frame has begun, and the play button says what it does."""
    button = part(tab, "button")
    tab.evaluate("""() => {
        const [root] = document.querySelectorAll(".speech-player");
        const audio = root.querySelector("audio");
        window.seen = [];
        new MutationObserver(() => seen.push([audio.currentTime,
            [...root.querySelectorAll(".player-letters .player-lit")].map(each => each.textContent).join("")]))
            .observe(root.querySelector(".player-letters"), {subtree: true, attributes: true});
    }""")
    button.click()
    tab.wait_for_function("() => document.querySelector('.speech-player .player-button').textContent === 'Pause'")
    tab.wait_for_function("() => document.querySelector('.speech-player audio').ended", timeout=20_000)
    tab.wait_for_function("() => document.querySelector('.speech-player .player-button').textContent === 'Play'")
    whole = until(tab, -1, 99)
    assert letters(tab) == whole and now(tab).startswith(f"{said[0].seconds:.2f} s")
    seen = tab.evaluate("() => seen")
    assert len({text for _, text in seen}) > len(whole) / 2 and seen[-1][1] == whole
    for time, text in seen:
        assert whole.startswith(text)
        assert len(until(tab, -1, time - LATE)) <= len(text) <= len(until(tab, -1, time + LATE)), (time, text)
    assert part(tab, ".player-live").inner_text() == f"The end. {STATES[-1]} reads “{whole}”."
    button.click()  # from the start again
    tab.wait_for_function("() => document.querySelector('.speech-player audio').currentTime < 1")
    button.click()


def test_space_plays_and_pauses(tab):
    slider = part(tab, "input[type=range]")
    slider.focus()
    tab.keyboard.press("Space")
    tab.wait_for_function("() => document.querySelector('.speech-player audio').currentTime > 0.2")
    tab.keyboard.press("Space")
    tab.wait_for_function("() => document.querySelector('.speech-player audio').paused")
    tab.wait_for_function("() => document.querySelector('.player-button').textContent === 'Play'")
    time = tab.evaluate("() => document.querySelector('.speech-player audio').currentTime")
    assert now(tab).startswith(f"{time:.2f} s, hears ") and 0.2 < time < 1.7
    assert part(tab, ".player-live").inner_text().startswith(f"Paused at {time:.2f} s. {STATES[-1]} reads")
    part(tab, "button").focus()
    tab.keyboard.press("Space")
    tab.wait_for_function("() => !document.querySelector('.speech-player audio').paused")
    tab.keyboard.press("Space")
    tab.wait_for_function("() => document.querySelector('.speech-player audio').paused")


@pytest.mark.parametrize("where", ["button", "input[type=range]", ".player-picture"])
def test_arrows_step_by_a_frame(tab, where):
    """From the button, on the slider, and after a click into the picture."""
    focused = part(tab, where)
    if where == ".player-picture":
        focused.click(position={"x": 60, "y": 20})
        part(tab, "input[type=range]").fill("0")
    focused.focus()
    if where == "button":
        tab.keyboard.press("ArrowRight")  # into the first frame
        assert now(tab).startswith("0.00 s")
    for frame in range(1, 31):
        tab.keyboard.press("ArrowRight")
        assert now(tab).startswith(f"{frame * STEP:.2f} s, hears "), frame
        assert letters(tab) == until(tab, -1, frame * STEP), frame
    tab.keyboard.press("ArrowLeft")
    assert now(tab).startswith("0.87 s") and letters(tab) == until(tab, -1, 0.87)
    assert tab.evaluate("() => document.querySelector('.speech-player audio').currentTime") == pytest.approx(0.87)
    assert part(tab, "input[type=range]").get_attribute("aria-valuetext") == now(tab)
    assert part(tab, ".player-live").inner_text() == (now(tab) if where != "input[type=range]" else "")


def test_the_picture_follows(tab, said):
    """Playhead, veil, the row that is heard, and the letters in it."""
    read = table(tab)
    letter, since = read[3]
    part(tab, "input[type=range]").fill(str(round(since / STEP)))
    assert part(tab, ".player-name.player-heard").all_text_contents() == [letter]
    assert now(tab).startswith(f"{since:.2f} s, hears {letter}, ")
    share = 100 * since / said[0].seconds
    for name, attribute in ((".player-head", "x1"), (".player-head", "x2"), (".player-veil", "x")):
        assert float(part(tab, name).get_attribute(attribute).rstrip("%")) == pytest.approx(share, abs=1e-6)
    marks = part(tab, ".player-state").nth(2).locator(".player-marks text")
    assert marks.all_text_contents() == [one.replace(" ", "␣") for one, _ in read]
    assert [marks.nth(i).is_visible() for i in range(len(read))] == [i <= 3 for i in range(len(read))]


def test_a_click_into_the_picture_seeks(tab, said):
    plot = part(tab, ".player-plot")
    width = plot.evaluate("plot => plot.getBoundingClientRect().width")
    plot.click(position={"x": width * 0.5, "y": 30})
    frame = int(0.5 * said[0].seconds / STEP)
    assert now(tab).startswith((f"{frame * STEP:.2f} s", f"{(frame - 1) * STEP:.2f} s"))


def test_states_are_switched(tab):
    """Text, curves and what is heard change; time does not. By arrow keys, as radio buttons are."""
    part(tab, "input[type=range]").fill("40")
    for state, name in enumerate(STATES):
        part(tab, "fieldset").get_by_label(name).check()
        assert letters(tab) == until(tab, state, 1.2), name
        assert drawn(tab) == [i == state for i in range(3)] and now(tab).startswith("1.20 s")
        reads = f"reads “{letters(tab)}”" if letters(tab) else "reads nothing"
        assert part(tab, ".player-live").inner_text() == f"{name} {reads}."
    tab.keyboard.press("ArrowUp")
    assert part(tab, "fieldset").get_by_label(STATES[1]).is_checked()
    assert letters(tab) == until(tab, 1, 1.2) and letters(tab, 1) == until(tab, -1, 99, number=1)


def test_speed(tab):
    """It lasts from one recording to its repetition, and a quarter is a quarter."""
    part(tab, "select").select_option("0.25")
    part(tab, "button").click()
    tab.wait_for_function("() => document.querySelector('.speech-player audio').currentTime > 0.1")
    assert tab.evaluate("() => document.querySelector('.speech-player audio').playbackRate") == 0.25
    part(tab, "select").select_option("1")
    assert tab.evaluate("() => document.querySelector('.speech-player audio').playbackRate") == 1
    part(tab, "button").click()


def test_one_plays_at_a_time(tab):
    part(tab, "button", 0).click()
    tab.wait_for_function("() => document.querySelector('.speech-player audio').currentTime > 0")
    part(tab, "button", 1).click()
    tab.wait_for_function("() => [...document.querySelectorAll('.speech-player audio')].map(a => a.paused).join()"
                          " === 'true,false'")
    part(tab, "button", 1).click()


def test_it_does_not_chatter(tab):
    """Nothing is spoken while the recording speaks, and the slider's text stands still as well."""
    part(tab, "input[type=range]").focus()
    tab.evaluate("""() => {
        const [root] = document.querySelectorAll(".speech-player");
        const audio = root.querySelector("audio");
        window.spoken = [];
        const note = list => list.forEach(each => audio.paused || spoken.push(each.target.textContent));
        new MutationObserver(note).observe(root.querySelector(".player-live"), {childList: true, subtree: true});
        new MutationObserver(note).observe(root.querySelector("[type=range]"), {attributeFilter: ["aria-valuetext"]});
    }""")
    tab.keyboard.press("Space")
    tab.wait_for_function("() => document.querySelector('.speech-player audio').ended", timeout=20_000)
    assert [text for text in tab.evaluate("() => spoken") if text] == []
    assert tab.locator("[aria-live]").count() == FEW and tab.locator("output, [role=status], [role=alert]").count() == 0


def test_less_motion(opened):
    """The picture moves only when another letter is read."""
    tab = opened(reduced_motion="reduce")
    tab.evaluate("""() => {
        const [root] = document.querySelectorAll(".speech-player");
        window.moves = new Set();
        new MutationObserver(() => moves.add(root.querySelector(".player-head").getAttribute("x1")))
            .observe(root.querySelector(".player-head"), {attributes: true});
    }""")
    part(tab, "button").click()
    tab.wait_for_function("() => document.querySelector('.speech-player audio').ended", timeout=20_000)
    tab.wait_for_function("() => document.querySelector('.player-button').textContent === 'Play'")
    whole = until(tab, -1, 99)
    assert letters(tab) == whole and 2 < tab.evaluate("() => moves.size") <= len(whole) + 2
    assert part(tab, "*").evaluate_all("all => all.every(each => getComputedStyle(each).animationName === 'none' &&"
                                       " parseFloat(getComputedStyle(each).transitionDuration) === 0)")


def test_everything_is_reached_by_keyboard(tab):
    """Tab comes by each control once, by one of the radio buttons, and each is seen to have the focus."""
    part(tab, "input[type=radio]").nth(2).focus()
    seen = []
    while tab.locator(".speech-player").first.evaluate("root => root.contains(document.activeElement)"):
        seen.append(tab.evaluate("() => document.activeElement.tagName + (document.activeElement.type || '')"))
        outline = tab.evaluate("() => getComputedStyle(document.activeElement).outlineStyle + ' '"
                               " + getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "solid 2px", seen[-1]
        tab.keyboard.press("Tab")
    assert seen == ["INPUTradio", "BUTTONbutton", "INPUTrange", "SELECTselect-one", "SUMMARY"]
    part(tab, "summary").press("Enter")
    assert part(tab, "table").first.is_visible()


def test_without_the_script_recording_picture_and_table_remain(opened):
    tab = opened("bare.html")
    assert part(tab, "audio").is_visible() and part(tab, "audio").get_attribute("controls") is not None
    assert part(tab, ".player-picture").is_visible() and tab.locator("button, input").count() == 0
    assert part(tab, ".player-plain").is_visible() and part(tab, ".player-source").is_visible()
    assert drawn(tab) == [False, False, True] and part(tab, ".player-marks text").last.is_visible()
    part(tab, "summary").click()
    assert part(tab, "table").count() == 3 and part(tab, "table").first.is_visible()


def test_a_recording_that_cannot_be_played(tab):
    """It says so, and the slider works."""
    tab.evaluate("() => { document.querySelector('.speech-player audio').src = 'data:audio/wav;base64,AAAA' }")
    part(tab, ".player-trouble").wait_for()
    assert part(tab, ".player-trouble").inner_text().startswith("This browser does not play the recording.")
    assert part(tab, ".player-trouble").bounding_box()["height"] > 10
    part(tab, "input[type=range]").fill("30")
    assert letters(tab) == until(tab, -1, 0.9)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("moment", ["before", "within"])
def test_axe_finds_nothing(opened, scheme, moment):
    tab = opened(color_scheme=scheme)
    if moment == "within":
        part(tab, "input[type=range]").fill("30")
        part(tab, "summary").click()
    tab.evaluate(AXE)
    found = tab.evaluate("() => axe.run({resultTypes: ['violations']})")["violations"]
    assert not found, [(each["id"], each["nodes"][0]["html"][:120]) for each in found]


def luminance(colour):
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (value / 255 for value in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_told_from_its_paper(opened, scheme):
    """axe sees no SVG: letters have 4.5 to 1, curves and playhead 3 to 1; and the spectrogram is dark in the dark."""
    tab = opened(color_scheme=scheme)
    part(tab, "input[type=range]").fill("30")

    def colour(element, attribute):
        value = element.first.evaluate(f"each => getComputedStyle(each).{attribute}")
        return luminance([int(number) for number in re.findall(r"\d+", value)[:3]])

    paper = colour(tab.locator(".speech-player"), "backgroundColor")
    for name, attribute, least in ((".player-name", "fill", 4.5), (".player-heard", "fill", 4.5),
                                   (".player-lit", "color", 4.5), (".player-marks text", "fill", 4.5),
                                   (".player-labels", "fill", 3), (".player-blank", "fill", 3),
                                   (".player-head", "stroke", 3)):
        light, dark = sorted((colour(part(tab, name), attribute), paper), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= least, (name, scheme)
    turned = part(tab, ".player-sound").evaluate("each => getComputedStyle(each).filter")
    assert turned == ("none" if scheme == "light" else "invert(0.93)")


def test_a_phone_shows_all_without_scrolling_sideways(opened):
    tab = opened(viewport={"width": 390, "height": 844}, has_touch=True)
    part(tab, "summary").click()
    part(tab, "input[type=range]").fill("30")
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 390
    wide = part(tab, "*").evaluate_all("all => all.filter(e => e.getBoundingClientRect().right > 390).length")
    assert wide == 0
    small = tab.evaluate("""() => [...document.querySelectorAll(".speech-player :is(button, select, [type=range])")]
        .filter(e => e.getBoundingClientRect().height < 32).length""")
    assert small == 0
    size = part(tab, ".player-name").first.evaluate("each => parseFloat(getComputedStyle(each).fontSize)")
    assert size == 12 and part(tab, ".player-name").first.bounding_box()["height"] > 10  # it does not shrink
    part(tab, ".player-plot").tap(position={"x": 100, "y": 40})
    assert now(tab).split()[0] != "0.90"


def test_on_paper(tab):
    """Nothing to operate; the whole text, the picture without veil, and the table, and afterwards all is as before."""
    part(tab, "input[type=range]").fill("20")
    before = letters(tab)
    tab.emulate_media(media="print")
    tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    operated = tab.evaluate("""() => [...document.querySelectorAll('button, input, select, audio, summary, legend')]
        .filter(e => e.checkVisibility()).length""")
    assert operated == 0 and letters(tab) == until(tab, -1, 99) != before
    assert part(tab, ".player-picture").is_visible() and part(tab, "table").first.is_visible()
    assert not part(tab, ".player-veil").is_visible()
    tab.emulate_media(media="screen")
    tab.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert letters(tab) == before and not part(tab, "table").first.is_visible()


def test_the_page_is_valid_html(tmp_path, said):
    path = tmp_path / "page.html"
    path.write_text(page([shown(each) for each in said]), encoding="utf-8")
    found = errors(path)
    assert not found, "\n".join(found)
    path.write_text(page([shown(said[0])]).replace("<audio controls", "<audio controls=3 <p"), encoding="utf-8")
    assert errors(path)
