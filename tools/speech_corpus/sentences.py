"""What is said in the corpus: number strings of one to five digits, and short commands. Text alone, no sound."""

from __future__ import annotations

import random

__all__ = ["COMMANDS", "DIGITS", "drawn"]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
#: Each part in brackets is one of several.
COMMANDS = (
    (("turn on", "turn off", "switch on", "switch off"), ("the",), ("light", "radio", "heating", "fan")),
    (("open", "close"), ("the",), ("door", "window", "garage", "mail")),
    (("go", "turn", "look"), ("left", "right")),
    (("go",), ("up", "down", "back", "home")),
    (("play",), ("the next song", "the last song", "some music", "the news")),
    (("stop", "wait", "go on", "say that again", "louder", "quieter", "yes", "no", "help me", "thank you"),),
    (("call",), ("home", "the office", "the doctor", "my mother")),
    (("set the timer to", "wait for", "wake me in"), DIGITS[2:], ("minutes", "hours")),
    (("channel", "page", "floor", "number"), DIGITS[1:]),
)


def drawn(rng: random.Random) -> str:
    """A number string or a command, as likely as each other.

    Examples
    --------
    >>> drawn(random.Random(1)), drawn(random.Random(6))
    ('one four one seven', 'set the timer to nine hours')
    """
    if rng.random() < 0.5:
        return " ".join(rng.choice(DIGITS) for _ in range(rng.randint(1, 5)))
    return " ".join(rng.choice(part) for part in rng.choice(COMMANDS))
