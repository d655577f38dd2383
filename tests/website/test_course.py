"""What the site has of the course, and what it has not: no solution of a graded assignment."""

import json
import re

from built_site import SITE

ROOT = SITE.parent.parent
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.S)


def solutions():
    """The marked parts of the sources, as their lines without indentation."""
    for path in sorted((ROOT / "course" / "assignments").glob("*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for found in SOLUTION.findall("".join(cell["source"])):
                yield path.stem, [line.strip() for line in found.splitlines() if line.strip()]


def test_no_solution_of_a_graded_assignment(site):
    """Neither in pages nor in the notebooks that they offer; a line alone may be the book's as well."""
    texts = [path.read_text(encoding="utf-8", errors="ignore") for path in SITE.rglob("*")
             if path.suffix in {".html", ".ipynb", ".md", ".js", ".txt", ".json"}]
    assert not any("BEGIN SOLUTION" in text for text in texts)
    marked = list(solutions())
    assert len({name for name, _ in marked}) == 8
    for name, lines in marked:
        telling = [line for line in lines if len(line) > 30]
        for text in texts:
            assert len(telling) < 3 or not all(line in text for line in telling), (name, telling[0])


def test_the_first_page_of_the_pack_finds_its_pages(site):
    text = (ROOT / "course" / "START_HERE.md").read_text(encoding="utf-8")
    pages = {part.partition(")")[0].partition("#")[0] for part in text.split("](site/")[1:]}
    assert len(pages) >= 6 and all((SITE / page).is_file() for page in pages)
