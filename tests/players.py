"""Players to test: utterances of the corpus with made-up probabilities, and a page that holds them. No network is run.

The letters of a word are spread evenly over the time of the word, which no network does exactly.
"""

import re
from pathlib import Path

import numpy as np

from reference_impl.speech import corpus, player
from reference_impl.speech.features import log_mel
from reference_impl.speech.letters import BLANK, NUM_SYMBOLS, SPACE, labels_of

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "book" / "_static"
STEP = 0.03
STATES = ("before training", "after 100 steps", "after 2,000 steps")


def utterances(count=4):
    """The first of the test that are longer than a word."""
    return [each for each in corpus.load("test", ROOT / "data" / "speech") if " " in each.text][:count]


def letter_times(utterance):
    """(label, seconds) of each letter and space."""
    for word in utterance.words:
        for i, label in enumerate(labels_of(word.name)):
            yield int(label), word.start + (word.end - word.start) * (i + 0.5) / len(word.name)
        if word is not utterance.words[-1]:
            yield SPACE, word.end - 0.01


def made_up(utterance, *, seed=0):
    """Probabilities (T, V) of three states: nothing learnt, letters in doubt and some forgotten, and sure of all."""
    rng = np.random.default_rng(seed)
    T = -(-len(log_mel(utterance.samples, utterance.rate)) // 3)
    letters = list(letter_times(utterance))
    logits = {"before training": rng.normal(0, 0.3, (T, NUM_SYMBOLS))}
    logits["before training"][:, BLANK] += 1
    for name, height, width, kept in (("after 100 steps", 4.0, 2.5, 0.6), ("after 2,000 steps", 9.0, 0.7, 1.0)):
        logits[name] = rng.normal(0, 0.3, (T, NUM_SYMBOLS))
        logits[name][:, BLANK] += 4.0
        for label, seconds in letters:
            distance = np.arange(T) - seconds / STEP + 0.5
            if rng.random() < kept:
                logits[name][:, label] += height * np.exp(-((distance / width) ** 2))
    return {name: np.exp(each) / np.exp(each).sum(-1, keepdims=True) for name, each in logits.items()}


def shown(utterance, **more):
    """A player of all states."""
    options = {"seconds_a_frame": STEP, "title": f"{utterance.text}, said by {utterance.voice}"} | more
    return player.show(utterance, log_mel(utterance.samples, utterance.rate), made_up(utterance), **options)


def page(players, *, script=True):
    """A page of its own, with the script and the style inside, light or dark as the reader's system."""
    loaded = [(STATIC / name).read_text(encoding="utf-8")
              for name in ("speech_player.css", "speech_player_math.js", "speech_player.js")]
    assert not re.search("</(script|style)", "".join(loaded))
    theme = ("document.documentElement.dataset.theme = "
             "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    scripts = "".join(f"<script>{each}</script>" for each in (theme, *loaded[1:])) if script else ""
    body = "".join(each.html for each in players)
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Players</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{loaded[0]}\n'
            'body { max-width: 46rem; margin: 1rem auto; padding: 0 1rem; font-family: sans-serif }\n'
            'html[data-theme="dark"] { background: #121212; color: #eee }</style></head>'
            f"<body><main><h1>Players</h1>{body}</main>{scripts}</body></html>")
