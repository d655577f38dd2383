"""Numbers and arrays as JSON and back, the same for inputs, answers and exported test vectors. No pickles.

JSON has no infinities and no NaN: they are the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

import base64
import math

import numpy as np

__all__ = ["LARGEST", "decoded", "encoded"]

#: Entries of an array that is still taken for an answer.
LARGEST = 1_000_000
_NAMES = {"b": "bool", "i": "int", "u": "int", "f": "float"}
_DTYPES = {"bool": np.bool_, "int": np.int64, "float": np.float64}
_STRINGS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encoded(value, *, packed=False) -> dict:
    """A number, a bool, a string or an array of numbers as a dict of shape, dtype and values; a number has shape [].

    With ``packed`` the floats of an array are not listed as ``values``, which costs a microsecond each: ``packed`` has
    their bytes (IEEE 754 binary64, little-endian, the last axis fastest) in base64.

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If it has more than ``LARGEST`` entries.

    Examples
    --------
    >>> encoded([[1.5, -np.inf]])
    {'shape': [1, 2], 'dtype': 'float', 'values': [1.5, '-inf']}
    >>> encoded(3)
    {'shape': [], 'dtype': 'int', 'values': [3]}
    """
    if isinstance(value, str):
        return {"text": value}
    try:
        array = np.array(value)
    except Exception as error:  # whatever a stranger's __array__ raises
        raise TypeError(f"{type(value).__name__}; expected a number or an array of numbers") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__}; expected a number or an array of numbers")
    if array.size > LARGEST:
        raise ValueError(f"an array with {array.size} entries; expected at most {LARGEST}")
    if packed and array.ndim and array.dtype.kind == "f":
        text = base64.b64encode(np.ascontiguousarray(array, dtype="<f8")).decode("ascii")
        return {"shape": list(array.shape), "dtype": "float", "packed": text}
    values = [_number(x) for x in array.ravel().tolist()]
    return {"shape": list(array.shape), "dtype": _NAMES[array.dtype.kind], "values": values}


def _number(x):
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "-inf"
    return x


def decoded(value: dict):
    """What :func:`encoded` made of a value: a str, or an array of bool, int64 or float64 (a number has shape ()).

    Raises
    ------
    ValueError
        If it is not such a dict, or the number of values is not that of the shape.

    Examples
    --------
    >>> decoded({"shape": [1, 2], "dtype": "float", "values": [1.5, "-inf"]})
    array([[ 1.5, -inf]])
    """
    if not isinstance(value, dict):
        raise ValueError(f"{value!r}; expected a dict with shape and values, or with text")
    if isinstance(value.get("text"), str):
        return value["text"]
    shape, dtype, values = value.get("shape"), value.get("dtype"), value.get("values")
    if isinstance(value.get("packed"), str) and dtype == "float":
        values = _unpacked(value["packed"])
    if not (isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
            and isinstance(values, (list, np.ndarray))
            and len(values) == math.prod(shape) <= LARGEST):
        raise ValueError(f"shape = {shape!r}; expected a list of integers >= 0 and as many values")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"dtype = {dtype!r}; expected one of {', '.join(_DTYPES)}")
    if isinstance(values, np.ndarray):
        return values.reshape(shape)
    numbers = [_STRINGS.get(x, x) if isinstance(x, str) else x for x in values]
    kinds = {"bool": bool, "int": int, "float": (int, float)}[dtype]
    if not all(isinstance(x, kinds) for x in numbers):
        raise ValueError(f"values; expected numbers of dtype {dtype}, or 'inf', '-inf' or 'nan' as floats")
    try:
        return np.array(numbers, dtype=_DTYPES[dtype]).reshape(shape)
    except OverflowError as error:  # a number that no array holds
        raise ValueError(f"values; expected numbers that fit into {np.dtype(_DTYPES[dtype])}") from error


def _unpacked(text):
    """The floats in a text; None if it is not one of floats."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)
    except ValueError:
        return None
