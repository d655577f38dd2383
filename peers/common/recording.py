"""Keeps what a library returned in direct calls, by the name of the question, and writes it as JSON. It judges nothing.

A `calls.py` marks each question with :func:`question` and ends with :func:`record`. Python 3.8 is the oldest that
will do.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

_QUESTIONS, _APART = {}, []


def question(function):
    """Mark a function whose docstring says what is called, and which returns ``{name: value}``."""
    _QUESTIONS[function.__name__.replace("_", "-")] = function
    return function


def question_apart(function):
    """Mark a question to ask in a process of its own, since the library may write where it must not."""
    _APART.append(question(function))
    return function


def record():
    """Ask every question, or those that the command names, and write the answers into the file that it names first."""
    path, *names = sys.argv[1:]
    answers = {}
    for name in names or _QUESTIONS:
        function = _QUESTIONS[name]
        if function in _APART and not names:
            subprocess.run([sys.executable, sys.argv[0], path, name], check=True)
            with open(path, encoding="utf-8") as file:
                answers.update(json.load(file))
        else:
            answers[name] = {"asked": " ".join(function.__doc__.split()), "returned": plain(function())}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(answers, file, allow_nan=False)
    if names:
        os._exit(0)  # what was overwritten may show when memory is freed


def plain(value):
    """The value in JSON: arrays as lists, numbers to 12 digits, and infinities and NaN as strings."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.ndim:
        return [plain(each) for each in array]
    if array.dtype.kind in "biu":
        return array.item()
    number = float(array)
    return float(f"{number:.12g}") if np.isfinite(number) else str(number)


def sixteenths(seed, *shape):
    """Numbers of a standard normal distribution, rounded to sixteenths: float32 and JSON have them exactly."""
    return np.round(16 * np.random.default_rng(seed).normal(size=shape)) / 16


def raised(function, *arguments, **named):
    """The error of a call, its kind and first line; empty if there is none."""
    try:
        function(*arguments, **named)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, (str(error).splitlines() or [""])[0]).strip()
    return ""


def printed(function, *arguments, **named):
    """What a call returned, and what it wrote to standard output and error, from C as well."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with tempfile.TemporaryFile() as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            value = function(*arguments, **named)
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, copy in zip((1, 2), kept):  # noqa: B905
                os.dup2(copy, number)
                os.close(copy)
        file.seek(0)
        return value, file.read().decode("utf-8", "replace")
