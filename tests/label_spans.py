"""Cases of alignments, and states and spans of one path of an enumeration, read off its symbols; no package code."""

from itertools import groupby

CASES = [  # T, V, targets, blank
    (5, 3, [1, 2], 0), (6, 3, [1, 1, 2], 0), (4, 3, [0, 2], 1), (5, 2, [0, 0], 1), (4, 3, [], 2), (1, 2, [1], 0),
    (1, 2, [], 0), (2, 3, [1, 2], 0), (6, 2, [1], 0),
]


def states_and_spans(string, blank):
    """Of a string of CTC the state of each frame, and first and last frame of each label, from its runs."""
    states, first, last, t = [], [], [], 0
    for symbol, run in groupby(string):
        frames = range(t, t := t + len(list(run)))
        if symbol != blank:
            first.append(frames[0])
            last.append(frames[-1])
        states += [2 * len(first) - (symbol != blank)] * len(frames)
    return states, first, last


def expected(kind, path, blank):
    """The same three of a list of entries, as the enumeration has it."""
    if kind == "ctc":
        return states_and_spans([symbol for _, symbol in path], blank)
    frames = [t for t, _, symbol in path if symbol != blank]
    return [[t, u] for t, u, _ in path], frames, frames
