r"""The tokens of a displayed equation that mean something, from pylatexenc's: no spaces, no sizes, always braces."""

import functools

from pylatexenc.latexwalker import LatexWalker, LatexWalkerEndOfStream
from pylatexenc.macrospec import LatexContextDb

__all__ = ["CLOSE", "CLOSES", "OPEN", "TWO_ARGUMENTS", "TexError", "split", "statements", "tokens"]


class TexError(ValueError):
    """TeX that is not read."""


SPACES = {"\\" + name for name in [*", ; : ! quad displaystyle textstyle nolimits limits left right".split(), " "]}
SPACES |= {"\\" + size + side for size in ["big", "Big", "bigg", "Bigg"] for side in ["", "l", "r", "m"]}
WORDS = {"\\" + name for name in "text operatorname mathcal mathbb mathrm".split()}
ACCENTS = {"\\" + name for name in "hat bar dot tilde".split()}
TWO_ARGUMENTS = {r"\frac": "div", r"\tfrac": "div", r"\binom": "binom"}
CLOSES = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil",
          r"\lvert": r"\rvert"}
OPEN, CLOSE = {*CLOSES}, {*CLOSES.values()}


def tokens(tex):
    r"""The tokens that mean something: no spaces, an accent or a prime together with its letter, arguments in braces.

    Examples
    --------
    >>> tokens(r"\hat\alpha_t\,(s) = \tfrac12 \operatorname{lse}(u')")  # doctest: +NORMALIZE_WHITESPACE
    ['\\hat{\\alpha}', '_', '{', 't', '}', '(', 's', ')', '=', '\\tfrac', '{', '1', '}', '{', '2', '}',
     '\\operatorname{lse}', '(', "u'", ')']
    >>> tokens(r"Z \overset{3}{=} 1")
    ['Z', '=', '1']
    """
    return [*_tokens(tex)]


@functools.cache
def _tokens(tex):
    raw, out = _raw(tex), []
    while raw:
        out += _next(raw)
    return tuple(out)


def _raw(tex):
    """pylatexenc's tokens as strings, a text as one of them. Lines of an ``aligned`` are joined."""
    walker, pos, out, begins_line, lines = LatexWalker(tex, latex_context=LatexContextDb()), 0, [], True, False
    while True:
        try:
            token = walker.get_token(pos, environments=True)
        except LatexWalkerEndOfStream:
            return out
        pos = token.pos + token.len
        name = "\\" + token.arg if token.tok == "macro" else token.arg
        if token.tok in {"begin_environment", "end_environment"}:
            if name != "aligned":
                raise TexError(f"environment {name}")
            lines = begins_line = token.tok == "begin_environment"
        elif name == r"\text":
            end = tex.index("}", pos) + 1
            out, pos = [*out, name + tex[pos:end]], end
        elif lines and name in {r"\\", "&"} and not _in_substack(out) or name in SPACES:
            begins_line = begins_line or name == r"\\"
        elif not (name == r"\qquad" and lines and begins_line):
            out, begins_line = [*out, name], False


def _in_substack(raw):
    """Whether the last tokens are lines below a sum."""
    last = raw[len(raw) - raw[::-1].index(r"\substack"):] if r"\substack" in raw else []
    return last.count("{") > last.count("}")


def _next(raw):
    """The next meaningful tokens, taken from the front of ``raw``."""
    token = raw.pop(0)
    if token in WORDS or token in ACCENTS:
        return [_with_primes(token + "{" + "".join(_argument(raw)) + "}", raw)]
    if token == "{" and raw[:1] == ["}"]:
        raw.pop(0)
        return []
    if token == "{" and raw[:2] in (["+", "}"], ["-", "}"]):  # an operator without its spaces
        operator, _ = raw.pop(0), raw.pop(0)
        return [operator]
    if token in TWO_ARGUMENTS:
        return [token, *_braced(raw), *_braced(raw)]
    if token in {"_", "^"}:
        return [token, *_braced(raw)]
    if token == r"\overset":  # the number of a line, above its equals sign
        _argument(raw)
        return _argument(raw)
    if token == "#":
        return [token + raw.pop(0)]
    if token.isdigit():
        while raw and (raw[0].isdigit() or raw[0] == "." and raw[1:] and raw[1].isdigit()):
            token += raw.pop(0)
        return [token]
    return [_with_primes(token, raw) if token.isalpha() or token.startswith("\\") else token]


def _with_primes(token, raw):
    while raw and raw[0] == "'":
        token += raw.pop(0)
    return token


def _argument(raw):
    """The tokens of the next argument, without its braces."""
    token = raw.pop(0)
    if token != "{":
        return [token + (raw.pop(0) if token == "#" else "")]
    depth, out = 1, []
    while depth:
        token = raw.pop(0)
        depth += (token == "{") - (token == "}")
        out.append(token)
    return out[:-1]


def _braced(raw):
    inner, out = _argument(raw), []
    while inner:
        out += _next(inner)
    return ["{", *out, "}"]


def statements(found):
    r"""The equation and the conditions behind it: \qquad parts them, and the comma or full stop in front goes."""
    parts = [part for part in split(found, r"\qquad") if part]
    return [part[:-1] if part and part[-1] in {".", ","} else part for part in parts]


def split(found, *separators):
    """Parts between the separators that no bracket encloses."""
    parts, depth = [[]], 0
    for token in found:
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
