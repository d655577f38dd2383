"""Reads a file of results: JSON of the form of `data/vectors/results.schema.json`, whoever wrote it."""

from __future__ import annotations

import functools
import json

from ..encoding import decoded
from .document import FOLDER, answered

__all__ = ["LARGEST", "NotResults", "check_vectors", "read_results", "right_results"]

#: Characters: ten times what the largest of the public documents takes with all its answers.
LARGEST = 2_000_000
_WRITTEN = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class NotResults(ValueError):
    """The text is not a file of results; says what is wrong, for whoever wrote it."""


@functools.cache
def _validator(name):
    import jsonschema  # it takes seconds, and most who import the questions have no file of results

    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_vectors(document) -> None:
    """Raise ``jsonschema.ValidationError`` if a document of vectors is not of the form of its schema."""
    _validator("vectors").validate(document)


def read_results(text, *, bare_infinities=False) -> dict:
    """The results of a file, arrays as NumPy arrays and losses as floats or lists of them.

    ``text`` is what the file says, or its bytes, in any of Unicode's encodings: a shell on Windows writes UTF-16.
    With ``bare_infinities`` it takes Infinity and NaN as they are: some libraries write them, though JSON has neither.

    Raises
    ------
    NotResults
        With a sentence that names what is wrong, and where.

    Examples
    --------
    >>> read_results('{"vectors": "ctc 1.0.0", "precision": "float64", "results": {"labels/one-label": {"loss": NaN}}}')
    Traceback (most recent call last):
        ...
    reference_impl.conformance.vectors.results.NotResults: NaN is no JSON; write the string "nan".
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "replace")
    if not text.strip():
        raise NotResults("There are no results.")
    if len(text) > LARGEST:
        raise NotResults(f"It has {len(text)} characters; expected at most {LARGEST}.")
    try:
        found = json.loads(text, parse_constant=_WRITTEN.get if bare_infinities else _no_constant)
    except NotResults:
        raise
    except (ValueError, RecursionError) as error:
        raise NotResults(f"It is not JSON: {str(error)[:200]}.") from None
    error = next(_validator("results").iter_errors(found), None)
    if error is not None:
        raise NotResults(_said(error))
    for name, fields in found["results"].items():
        for field, value in fields.items():
            try:
                fields[field] = _loss(value) if field == "loss" else decoded({**value, "dtype": "float"})
            except ValueError as error:
                raise NotResults(f"{name[:60]}, {field}: {str(error)[:200]}.") from None
            except OverflowError:
                raise NotResults(f"{name[:60]}, {field}: a number is too large for a float.") from None
    return found


def right_results(document) -> dict:
    """A file of results, as a dict, that has all answers of a document: what a port in float64 should write."""
    results = {case["id"]: dict(case["outputs"]) for case in answered(document)["cases"]}
    return {"vectors": document["name"], "precision": "float64", "made_by": "reference_impl", "results": results}


def _no_constant(name):
    raise NotResults(f'{name} is no JSON; write the string "{_WRITTEN[name]}".')


def _loss(value):
    return [_loss(each) for each in value] if isinstance(value, list) else float(value)


def _said(error):
    """One violation of the schema as a sentence; the library's own repeats the whole instance."""
    place = ", ".join(str(part)[:60] for part in error.absolute_path) or "the whole"
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{place}: {' and '.join(missing)} missing."
    if error.validator == "additionalProperties":
        extra = [name for name in error.instance if name not in error.schema.get("properties", {})]
        return f"{place}: {extra[0][:60]!r} is none of {', '.join(error.schema['properties'])}."
    found = json.dumps(error.instance)[:60]
    if error.validator == "anyOf":
        wanted = 'a number, or one of the strings "inf", "-inf", "nan"'
    elif error.validator == "type" and "values" in error.schema.get("properties", {}):
        wanted = "an object with shape and values"
    else:
        wanted = f"{error.validator} {json.dumps(error.validator_value)[:100]}"
    return f"{place}: {found}; expected {wanted}."
