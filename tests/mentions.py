"""Where the book's pages name a library, paragraph by paragraph, and which claims stand beside it. It judges nothing.

A paragraph is what a blank line ends; every list item, table row, line of a glossary and caption is one of its own.
Code, formulas, headings, titles of boxes, and the texts of links that lead within the book are no part of one.
"""

import importlib
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
import reference  # noqa: E402

MATH = re.compile(r"^[ \t]*\$\$.*?\$\$(?: \([\w-]+\))?[ \t]*$|(?<![\\$])\$[^$\n]+\$", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"\s*(`{3,}|:{3,})(.*)$")
BEGINS = re.compile(r"\s*(?:[-*]|\d+\.|:)\s|\s*\|")  # a list item, a definition, a row
NO_PROSE = re.compile(r"\s*(?:#{1,6} |\([\w-]+\)=$|:[\w-]+:|\+\+\+)")
ROLE = re.compile(r"\{(\w[\w:-]*)\}`([^`]*)`|:([a-z]+):`([^`]*)`")
NAMED = re.compile(r"(?:\{named\}|:named:)(?:``([^`].*?[^`]) ?``(?!`)|`([^`]+)`)")
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)[^)]*\)")
THREAD = re.compile(r"(?:\b[\w.-]+(?:/[\w.-]+)?|(?<=[\s(]))#(\d+)\b")


class Paragraph(NamedTuple):
    """A paragraph, or a docstring's: where it stands, what it says, and the marks that it holds."""

    place: str
    text: str
    claims: tuple = ()
    named: tuple = ()


# --- the data ---


@cache
def data():
    return json.loads((ROOT / "data" / "claims.json").read_text(encoding="utf-8"))


@cache
def claims():
    return {claim["id"]: claim for claim in data()["claims"]}


def whole(words):
    """Match these words where they are no part of a longer name: torch, and not torch.compile or torch_impl."""
    listed = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![\w./-])(?:{listed})(?![\w/]|[.-]\w)")


def libraries_in(text, libraries):
    """Return the keys of the libraries that a text mentions."""
    senses = [phrase for library in libraries.values() for phrase in library.get("other_senses", ())]
    if senses:
        text = whole(senses).sub(" ", text)
    return {key for key, library in libraries.items() if whole(library["spellings"]).search(text)}


def threads_in(text):
    """Return the numbers of issues and pull requests that a text mentions."""
    return {int(number) for number in THREAD.findall(text)}


# --- paragraphs ---


def marked(place, text):
    """Return the paragraph with its marks taken out, and roles and links within the book removed."""
    text = " ".join(text.split())
    named = tuple(first or second for first, second in NAMED.findall(text))
    text = NAMED.sub(" ", text)
    found = tuple(name.strip() for match in ROLE.finditer(text) if {"claim", "asked"} & {match[1], match[3]}
                  for name in (match[2] or match[4] or "").split(","))
    return Paragraph(place, " ".join(LINK.sub(" ", ROLE.sub(" ", text)).split()), found, named)


def paragraphs(place, text):
    """Yield the paragraphs of Markdown."""
    text = re.sub(r"\A---\n.*?\n---\n", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    text = MATH.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    block, start, fences, in_list, was_quoted = [], 0, [], False, False

    def ended():
        if block:
            yield marked(f"{place}:{start}", "\n".join(block))
            block.clear()

    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = re.sub(r"^\s*>\s?", "", line)
        fence = FENCE.match(bare)
        if fences and fence and not fence[2].strip() and fence[1] == fences[-1][0]:
            fences.pop()
        elif fences and fences[-1][1]:
            continue  # code
        elif fence:
            fences.append((fence[1], fence[1][0] == "`" and not re.match(r"\{(?!code|math|mermaid)", fence[2])))
        elif bare.strip() and not NO_PROSE.match(bare) and not (
                not block and not in_list and re.match(r" {4}", bare) and not fences):
            quoted = bare != line
            if BEGINS.match(bare) or (block and quoted != was_quoted) or " | " in bare:
                yield from ended()
            if not block:
                start, in_list = number, bool(BEGINS.match(bare))
            was_quoted = quoted
            block.append(bare)
            continue
        yield from ended()


def page(path):
    """Return the paragraphs of a page or of a notebook's text."""
    place, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return list(paragraphs(place, text))
    found = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            found += paragraphs(f"{place}#{cell['id']}", "".join(cell["source"]))
        caption = cell["metadata"].get("mystnb", {}).get("figure", {}).get("caption")
        found += paragraphs(f"{place}#{cell['id']}", caption or "")
    return found


def docstrings():
    """Yield (where, lines) of all that the Reference prints."""
    pages = sorted((ROOT / "book" / "reference").glob("*.rst"))
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for module in reference.DIRECTIVE.findall(texts):
        there = importlib.import_module(module)
        yield module, (there.__doc__ or "").split("\n")
        for name in reference.public_names(module):
            yield f"{module}.{name}", reference.documentation(module, name)
            members = vars(getattr(there, name)) if isinstance(getattr(there, name), type) else {}
            for member, value in members.items():
                text = getattr(getattr(value, "__func__", value), "__doc__", None) if callable(value) or isinstance(
                    value, (property, classmethod, staticmethod)) else None
                if text and not member.startswith("_"):
                    yield f"{module}.{name}.{member}", text.split("\n")


def reference_paragraphs():
    for place, lines in docstrings():
        kept = [line if is_prose else "" for line, is_prose in zip(lines, reference.prose(lines), strict=True)]
        for block in re.split(r"\n\s*\n", "\n".join(kept)):
            yield marked(place, block.replace("``", "`"))


def all_paragraphs():
    """Yield every paragraph of the book, the README and the Reference."""
    yield from page(ROOT / "README.md")
    for path in [*sorted((ROOT / "book").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]:
        yield from page(path)
    yield from reference_paragraphs()
    yield from rosetta_rows()


def rosetta_rows():
    """Yield the rows of the Rosetta stone, which the pages print from the registry."""
    from reference_impl.as_published.rosetta import ROWS

    for row in ROWS.values():
        found = marked(f"row {row.key}", MATH.sub(" ", " | ".join(row.cells)))
        yield found._replace(claims=(*found.claims, *row.claims))


def sources_of_bugs():
    """Yield what the bank says of where a bug was met, and what the cards of the museum say, as paragraphs."""
    from reference_impl.bug_bank import BUGS
    from reference_impl.bug_bank.exhibits import CONFUSIONS

    for bug in (*BUGS, *CONFUSIONS):
        yield Paragraph(f"bug bank: {bug.name}", bug.source, bug.claims)
        for said in filter(None, (bug.believed, bug.truth)):
            yield marked(f"museum: {bug.name}", said)._replace(claims=bug.claims)
