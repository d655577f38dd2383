"""How a rule is said to a student, and a count of paths by which they can tell whether they have read it as meant."""

from __future__ import annotations

__all__ = ["cell", "paths"]


def cell(title, sentences, anchors):
    """The Markdown of the cell with the rule: a list of sentences, then counts of paths."""
    lines = [f"**{title}**", "", *(f"- {sentence}" for sentence in sentences), "",
             f"A check that you have read this as it is meant: there {', and there '.join(anchors)}."]
    return "\n".join(lines)


def paths(count, what):
    return f"{'is 1 path' if count == 1 else f'are {count} paths'} for {what}"
