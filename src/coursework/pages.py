"""HTML that needs no network and runs no script: notebooks, feedback and lists for instructors, formulas as MathML.

Needs the environment of course/requirements.txt. The book's own pages are made elsewhere, by Jupyter Book.
"""

from __future__ import annotations

import html
import re
from xml.etree.ElementTree import tostring

import bleach
from latex2mathml.converter import Converter
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import markdown2html
from pygments.formatters import HtmlFormatter

__all__ = ["harmless", "of_markdown", "of_notebook", "page", "self_contained", "with_notes"]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: #8881; border: 1px solid #8884; padding: .6rem; overflow-x: auto; line-height: 1.35; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #8886; padding: .25rem .6rem; text-align: left; vertical-align: top; }
.jp-InputPrompt, .jp-OutputPrompt, .prompt, .anchor-link { display: none; }
math[display="block"] { margin: .8rem 0; }
@media print { h1:not(:first-child) { break-before: page; } body { margin: 0; max-width: none; } }
"""
#: What is no formula: code, and whatever a student typed into it; the insides of tags.
_VERBATIM = re.compile(r"<(pre|code|style)\b.*?</\1>|<[^<>]*>", re.S)
_SCRIPT = re.compile(r"<script\b.*?</script>", re.S | re.I)
_FORMULA = re.compile(r"\$\$([^<]+?)\$\$|\$([^$<\n]+?)\$|\\\(([^<]+?)\\\)|\\\[([^<]+?)\\\]")
_TAGS = bleach.ALLOWED_TAGS | {*"h1 h2 h3 h4 h5 h6 p br hr pre div span table thead tbody tr th td".split()}
#: What a formula may consist of. LaTeX can ask for more: links, styles, classes, handlers.
_MATH_TAGS = {*"math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle msub msup msubsup munder mover munderover "
              "mmultiscripts mprescripts none mtable mtr mlabeledtr mtd menclose mpadded mphantom".split()}
_MATH_ATTRIBUTES = {*"xmlns display displaystyle scriptlevel mathvariant mathcolor mathbackground mathsize stretchy "
                    "symmetric fence separator form accent accentunder movablelimits lspace rspace minsize maxsize "
                    "width height depth voffset linethickness linebreak notation columnalign rowalign columnlines "
                    "rowlines frame columnspacing rowspacing columnspan rowspan".split()}
_MATH_VALUE = re.compile(r"[\w.%# +-]*")
_LONGEST_FORMULA = 5_000  # characters
_ANCHOR = re.compile(r'<a href="#[^"]*">(?:¶|&#182;)</a>')  # of a heading; what hides it is cleaned away
_XMLNS = "http://www.w3.org/1998/Math/MathML"
#: A browser runs and loads nothing in such a page, whatever gets into it.
_POLICY = ("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
           "img-src data:; base-uri 'none'; form-action 'none'\">")
#: A picture that was pasted into a cell. It is not kept, and nbconvert would miss it.
_PASTED = re.compile(r"attachment:(?=\S)", re.I)
_NAMED = re.compile(r"<m[io]>(\w{2,})</m[io]>(?!<mo)")


def self_contained(text: str) -> str:
    """A page without its scripts, and with MathML in the place of LaTeX; LaTeX that cannot be read stays.

    Examples
    --------
    >>> self_contained('<script src="https://example.org/a.js"></script><p><code>$x$</code></p>')
    '<p><code>$x$</code></p>'
    """
    text = _SCRIPT.sub("", text).replace("<head>", f"<head>{_POLICY}", 1)
    pieces, end = [], 0
    for code in _VERBATIM.finditer(text):
        pieces += [_FORMULA.sub(_mathml, text[end:code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, _FORMULA.sub(_mathml, text[end:])])


def with_notes(text: str, notes) -> str:
    """A page with notes at its top, as text.

    Examples
    --------
    >>> with_notes("<body><h1>x</h1></body>", ["1 < 2"])
    '<body><div style="border: 1px solid; padding: .5rem 1rem; margin: 1rem"><p>1 &lt; 2</p></div><h1>x</h1></body>'
    """
    if not notes:
        return text
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    box = f'<div style="border: 1px solid; padding: .5rem 1rem; margin: 1rem">{said}</div>'
    return re.sub(r"<body\b[^>]*>", lambda body: body[0] + box, text, count=1)


def _mathml(found):
    formula = next(filter(None, found.groups()))
    if len(formula) > _LONGEST_FORMULA:
        return found[0]
    try:
        converter = Converter(display="inline" if found[2] or found[3] else "block")
        math = converter.convert_to_element(html.unescape(formula))
        mathml = tostring(_only_a_formula(math), encoding="unicode")
    except Exception:  # whatever the converter meets in somebody's text
        return found[0]
    mathml = mathml.replace("<mo>\u2202</mo>", "<mi>\u2202</mi>")  # a derivative is no sum: no space around it
    return _NAMED.sub(r'<mi>\1</mi><mspace width="0.17em"/>', mathml)  # log Z, and not logZ


def _only_a_formula(math):
    """Elements, attributes and texts of a formula, without what is none.

    The converter writes characters as references and leaves the rest of a text as it was typed, tags included. Here a
    text is text: what is a reference is read as one, and the writer of XML escapes it.
    """
    for element in math.iter():
        if element.tag not in _MATH_TAGS:
            element.tag = "mrow"
        for name, value in [*element.attrib.items()]:
            if name not in _MATH_ATTRIBUTES or not (_MATH_VALUE.fullmatch(value) or value == _XMLNS):
                del element.attrib[name]
        for part in ("text", "tail"):
            setattr(element, part, html.unescape(getattr(element, part) or ""))
    return math


def harmless(text: str) -> str:
    """HTML of a student's Markdown: no scripts, no frames, no pictures, nothing that happens when it is looked at.

    Examples
    --------
    >>> harmless("**bold** <img src=x onerror=alert(1)>")
    '<p><strong>bold</strong> </p>'
    >>> harmless("## Findings")
    '<h2>Findings</h2>'
    """
    return _ANCHOR.sub("", bleach.clean(markdown2html(_PASTED.sub("", text)), tags=_TAGS, strip=True)).strip()


def of_markdown(text: str, title: str) -> str:
    """A page from Markdown with formulas between dollars."""
    return page(markdown2html(text), title)


def of_notebook(notebook, title: str) -> str:
    """A page from a notebook and its outputs."""
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return page(body, title)


def page(body: str, title: str) -> str:
    """A page from the HTML of its body."""
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    head = (f'{_POLICY}<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{colours}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"
            f".highlight, .highlight pre {{ background: none; }}{_STYLE}</style>")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{self_contained(body)}\n</body></html>\n'
