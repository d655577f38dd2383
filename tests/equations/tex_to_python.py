r"""A displayed equation, as TeX, becomes Python expressions: a grammar of the few notations of this book.

What is written alike everywhere is known here: sums and products with their bounds, fractions, binomials, powers, the
bracket [ condition ] that is 1 or 0, floors, logarithms. What differs from chapter to chapter stands in a
:class:`Notation`: ``{r"\alpha_{#t}(#s)": "alpha[#t, #s]"}``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tex_tokens import CLOSE, CLOSES, OPEN, TWO_ARGUMENTS, TexError, split, statements, tokens

__all__ = ["Notation", "Statement", "translate"]


@dataclass(frozen=True)
class Notation:
    r"""What a chapter's symbols mean in the names of its checks.

    Attributes
    ----------
    patterns : {TeX: Python}
        ``#t`` stands for an expression, the same on both sides. The longest pattern that fits wins, and of those the
        one that says more. A letter that no pattern has is a variable of that name, ``c_t`` is ``c[t]``.
    over : {TeX: Python}
        What a sum without bounds runs over: ``{"k": "range(V)"}``, or a whole clause, ``{r"a : m \to n": "for a, m in
        arcs_into(n)"}``.
    conditions : {TeX: Python}
        What may stand behind the equation after a wide space, and what it says about a case.
    """

    patterns: Mapping[str, str] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other):
        return Notation({**self.patterns, **other.patterns}, {**self.over, **other.over},
                        {**self.conditions, **other.conditions})


@dataclass(frozen=True)
class Statement:
    """Python expressions: the members that an equation says to be equal, and what must hold besides."""

    members: list[str]
    conditions: list[str]


def translate(tex: str, notation: Notation) -> Statement:
    r"""The Python of a display.

    Raises
    ------
    TexError
        Where the TeX has something that neither this grammar nor the notation knows.

    Examples
    --------
    >>> translate(r"Z = \sum_{s=0}^{S-1} \alpha_t(s) .", Notation({r"\alpha_{#t}(#s)": "alpha[#t, #s]"}))
    Statement(members=['Z', 'sum(alpha[(t), (s)] for s in range(0, S - 1 + 1))'], conditions=[])
    """
    equation, *conditions = statements(tokens(tex))
    members = [_Parser(part, notation).whole() for part in split(equation, "=")]
    return Statement(members, [_condition(each, notation) for each in conditions])


def _condition(condition, notation):
    for pattern, python in notation.conditions.items():
        if tokens(pattern) == condition:
            return python
    raise TexError(f"no such condition in the notation: {' '.join(condition)}")


COMPARISONS = {"=": "==", r"\ne": "!=", "<": "<", ">": ">", r"\le": "<=", r"\ge": ">=", r"\in": "in",
               r"\notin": "not in"}
FUNCTIONS = {r"\log": "log", r"\exp": "exp", r"\tanh": "tanh"}
ENDS_TERM = {"+", "-", ",", ")", "]", "}", r"\}", r"\rfloor", r"\rceil", r"\rvert", *COMPARISONS}


class _Parser:
    """Recursive descent; each method takes tokens from ``self.rest`` and returns Python."""

    def __init__(self, rest, notation, patterns=None):
        self.rest, self.notation = list(rest), notation
        self.patterns = patterns or sorted(
            ((tokens(tex), python) for tex, python in notation.patterns.items()),
            key=lambda each: (-len(each[0]), sum(token[0] == "#" for token in each[0])))

    def whole(self):
        out = self.expression()
        if self.rest:
            raise TexError(f"not read: {' '.join(self.rest)}")
        return out

    def sub(self, part):
        return _Parser(part, self.notation, self.patterns)

    def peek(self):
        return self.rest[0] if self.rest else None

    def take(self, expected=None):
        if not self.rest or expected is not None and self.rest[0] != expected:
            raise TexError(f"expected {expected or 'more'} before {' '.join(self.rest) or 'the end'}")
        return self.rest.pop(0)

    def enclosed(self, close):
        """The tokens up to the bracket that closes, which goes."""
        depth, out = 1, []
        while True:
            token = self.take()
            depth += (token in OPEN) - (token in CLOSE)
            if depth == 0:
                if token != close:
                    raise TexError(f"{close} expected, not {token}")
                return out
            out.append(token)

    def expression(self):
        out = ("-" if self.take_sign() == "-" else "") + self.term()
        while self.peek() in {"+", "-"}:
            out += f" {self.take()} {self.term()}"
        return out

    def take_sign(self):
        return self.take() if self.peek() in {"+", "-"} else None

    def term(self):
        out, count = self.factor(), 1
        while self.peek() is not None and self.peek() not in ENDS_TERM:
            token = self.peek()
            if token == "/":
                self.take()
                out = f"div({out}, {self.factor()})"
                continue
            if token in {r"\cdot", r"\bmod"}:
                self.take()
                out += (" * " if token == r"\cdot" else " % ") + self.factor()
            else:
                out += " * " + self.factor()
            count += 1
        return out

    def factor(self):
        out = self.atom()
        while self.peek() == "^":
            out = f"({out}) ** ({self.sub(self.superscript()).whole()})"
        return out

    def superscript(self):
        self.take("^")
        self.take("{")
        return self.enclosed("}")

    def atom(self):
        matched = self.pattern()
        if matched is not None:
            return matched
        token = self.take()
        if token in TWO_ARGUMENTS:
            above, below = (self.take("{") and self.sub(self.enclosed("}")).whole() for _ in range(2))
            return f"{TWO_ARGUMENTS[token]}({above}, {below})"
        if token in {r"\sum", r"\prod", r"\max", r"\min"} and self.peek() != "(":
            return self.big(token)
        if token in {r"\max", r"\min"}:
            self.take("(")
            return f"{token[1:]}({', '.join(self.listed(')'))})"
        if token in FUNCTIONS:
            return f"{FUNCTIONS[token]}({self.factor()})"
        if token == "e" and self.peek() == "^":
            return f"exp({self.sub(self.superscript()).whole()})"
        if token in {"(", "{"}:
            inner = self.listed(")" if token == "(" else "}")
            return f"({', '.join(inner)})"
        if token == "[":
            return f"({self.sub(self.enclosed(']')).condition()})"
        if token in {r"\lfloor", r"\lceil"}:
            inner = self.sub(self.enclosed(CLOSES[token])).whole()
            return f"{token[2:]}({inner})"
        if token == r"\lvert":
            return f"abs({self.sub(self.enclosed(CLOSES[token])).whole()})"
        return self.variable(token)

    def listed(self, close):
        return [self.sub(part).whole() for part in split(self.enclosed(close), ",")]

    def variable(self, token):
        if token[0].isdigit():
            return token
        name = token.lstrip("\\")
        if not re.fullmatch(r"[A-Za-z]+", name) or name in {"partial", "infty", "dots"}:
            raise TexError(f"unknown: {token}")
        if name in {"lambda"}:
            name += "_"
        if self.peek() == "_":
            self.take()
            self.take("{")
            name += f"[{', '.join(self.listed('}'))}]"
        return name

    # patterns

    def pattern(self):
        """The Python of the longest pattern that the next tokens fit, or None."""
        for pattern, python in self.patterns:
            found = _match(pattern, self.rest)
            if found is not None:
                length, captured = found
                del self.rest[:length]
                return _filled(python, captured, self)
        return None

    # sums

    def big(self, token):
        lower, upper = [], None
        while self.peek() in {"_", "^"}:
            which = self.take()
            self.take("{")
            part = self.enclosed("}")
            lower, upper = (part, upper) if which == "_" else (lower, part)
        clause = self.clause(lower, upper)
        body = self.factor() if token == r"\prod" else self.term()
        return f"{token[1:]}({body} {clause})"

    def clause(self, lower, upper):
        """``for ... in ... if ...``"""
        for tex, python in sorted(self.notation.over.items(), key=lambda each: -len(tokens(each[0]))):
            found = _match(tokens(tex), lower) if upper is None else None
            if found is not None and found[0] == len(lower):
                python = _filled(python, found[1], self)
                return python if python.startswith("for ") else f"for {_name(lower[0])} in {python}"
        if upper is not None:
            (variable,), (start,) = self.bounds(lower)
            return f"for {variable} in range({start}, {self.sub(upper).whole()} + 1)"
        return self.without_upper(lower)

    def bounds(self, lower):
        parts = split(lower, "=")
        if len(parts) != 2 or len(parts[0]) != 1:
            raise TexError(f"not a lower bound: {' '.join(lower)}")
        return [_name(parts[0][0])], [self.sub(parts[1]).whole()]

    def without_upper(self, lower):
        """``s : condition``, ``j \\ne k``, ``j, k``, ``m \\in M`` and lists of those."""
        if lower[:1] == [r"\substack"]:
            lower = [token for token in lower[2:-1]]
        parts = split(lower, ",", r"\\", ":")
        parts = [part for part in parts if part]
        clauses, conditions = [], []
        for i, part in enumerate(parts):
            if len(part) == 1:
                clauses.append(self.clause(part, None) if [*self.notation.over] and self._runs(part) else None)
            elif len(part) > 2 and part[1] == r"\in" and i == 0 and not self._runs(part[:1]):
                clauses.append(f"for {_name(part[0])} in {self.sub(part[2:]).whole()}")
            else:
                if i == 0:
                    clauses.append(self.clause(part[:1], None) if self._runs(part[:1]) else None)
                conditions.append(self.sub(part).condition())
        if not clauses or None in clauses:
            raise TexError(f"over what? {' '.join(lower)}")
        return " ".join(clauses) + (f" if {' and '.join(conditions)}" if conditions else "")

    def _runs(self, part):
        return any(tokens(tex) == part for tex in self.notation.over)

    # conditions

    def condition(self):
        parts = [self.sub(part) for part in split(self.rest, ",", r"\text{ and }", r"\text{ or }", r"\text{and}",
                                                   r"\text{or}")]
        joints = [token for token in self.rest if token in {",", r"\text{ and }", r"\text{ or }", r"\text{and}",
                                                            r"\text{or}"}]
        words = [" or " if "or" in joint else " and " for joint in joints] if len(joints) == len(parts) - 1 else None
        if words is None:
            words = [" and "] * (len(parts) - 1)
        out = parts[0].comparison()
        for word, part in zip(words, parts[1:], strict=True):
            out += word + part.comparison()
        return out

    def comparison(self):
        out = self.expression()
        if self.peek() not in COMPARISONS:
            raise TexError(f"no comparison: {out} {' '.join(self.rest)}")
        while self.peek() in COMPARISONS:
            out += f" {COMPARISONS[self.take()]} {self.expression()}"
        if self.rest:
            raise TexError(f"not read: {' '.join(self.rest)}")
        return out


def _name(token):
    name = token.lstrip("\\")
    if not name.isalpha():
        raise TexError(f"no variable: {token}")
    return name


def _match(pattern, found):
    """(number of tokens, {placeholder: tokens}) where ``found`` begins with the pattern, else None."""
    captured, i = {}, 0
    for j, token in enumerate(pattern):
        if not token.startswith("#"):
            if i >= len(found) or found[i] != token:
                return None
            i += 1
            continue
        until, depth, start = pattern[j + 1] if j + 1 < len(pattern) else None, 0, i
        while i < len(found) and not (depth == 0 and (found[i] == until or found[i] in CLOSE)):
            depth += (found[i] in OPEN) - (found[i] in CLOSE)
            i += 1
        part = found[start:i]
        if not part or len(split(part, ",")) > 1 or captured.setdefault(token, part) != part:
            return None
    return i, captured


def _filled(python, captured, parser):
    inner = {name: f"({parser.sub(part).whole()})" for name, part in captured.items()}
    return re.sub(r"#[A-Za-z]+", lambda name: inner[name[0]], python)
