"""Random numbers in place of computed ones, of the same shape and type."""

from __future__ import annotations

import dataclasses
import numbers
import random

import numpy as np

__all__ = ["random_like"]


def random_like(value, rng: random.Random):
    """Random numbers of the same shape and type; a list of paths, which has no numbers, gets one of them twice.

    Parameters
    ----------
    value : number, array, ring element, or a list, tuple, dict or dataclass of those
        Another type needs a method ``random_like(rng)``.
    rng : random.Random

    Examples
    --------
    >>> from fractions import Fraction
    >>> random_like([Fraction(1, 2), 0, "a"], random.Random(1))
    [Fraction(9, 86), 99, 'a']
    """
    domain = getattr(value, "ring", None) or getattr(value, "field", None)  # of sympy
    if domain is not None:
        return sum((rng.randint(1, 9) * generator for generator in domain.gens), domain.one * rng.randint(1, 9))
    match value:
        case np.ndarray():
            out = np.empty_like(value)
            for index in np.ndindex(value.shape):
                out[index] = random_like(value[index], rng)
            return out
        case list() | tuple() if value and all(isinstance(each, list | tuple) for each in value):
            return _one_twice(value, rng)
        case list() | tuple():
            return type(value)(random_like(each, rng) for each in value)
        case dict():
            return {key: random_like(each, rng) for key, each in value.items()}
    if hasattr(value, "random_like"):
        return value.random_like(rng)
    if dataclasses.is_dataclass(value):
        return type(value)(**{name: random_like(part, rng) for name, part in vars(value).items()})
    if value is None or isinstance(value, str):
        return value
    return _random_number(value, rng)


def _one_twice(paths, rng):
    """Path sums change, and no mass becomes 0."""
    return type(paths)([*paths, rng.choice(paths)])


def _random_number(value, rng):
    match value:
        case bool() | np.bool_():
            return type(value)(rng.random() < 0.5)
        case int() | np.integer():
            return type(value)(rng.randint(2, 99))
        case _ if hasattr(value, "denominator"):  # a fraction, of this library or another
            return type(value)(rng.randint(1, 99), rng.randint(100, 199))
        case float() | np.floating():
            return type(value)(rng.uniform(0.2, 0.9))
        case numbers.Real():  # of another library
            return type(value)(rng.uniform(0.2, 0.9))
        case complex() | np.complexfloating():
            return type(value)(complex(rng.uniform(0.2, 0.9), rng.uniform(0.2, 0.9)))
    if hasattr(value, "free_symbols"):
        import sympy  # not needed before somebody has made such a value

        terms = [rng.randint(1, 9) * symbol for symbol in sorted(value.free_symbols, key=str)]
        return sympy.Rational(rng.randint(1, 99), rng.randint(100, 199)) + sum(terms)
    raise TypeError(f"no random number is like a {type(value).__name__}; give it a method random_like(rng)")
