"""Write the public address of the repository wherever it stands: the setting, the notebooks, the citation. No network.

Usage: python tools/repository.py [ADDRESS]

ADDRESS is such as https://github.com/OWNER/NAME; "" takes the address out. Without it the setting stays, and the
notebooks and the citation follow it, a new notebook too. The setting is ``repository_url`` in _config.yml.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from repository import address  # noqa: E402  the extension of the site reads the same setting by the same rule
from sphinx.errors import ConfigError  # noqa: E402

SETTING = re.compile(r'^( +repository_url: )"(.*)"$', re.MULTILINE)
CITED = re.compile(r"^repository-code: .*\n", re.MULTILINE)

FETCH = """\
from importlib.util import find_spec
from os.path import isdir

if not find_spec("reference_impl"):  # as on Colab: fetch the book, install it
    !git clone -q --depth 1 {address}
    %pip install -q "./{name}[book]"
if isdir("{name}/notebooks"):  # chapters read ../data
    %cd -q {name}/notebooks"""

REFUSE = """\
from importlib.util import find_spec

if not find_spec("reference_impl"):
    raise ModuleNotFoundError(
        "reference_impl is not installed, and this copy of the notebook does "
        "not know its repository: clone that, and run `make lab` there"
    )"""


def setting(root):
    """The address in _config.yml, "" if there is none."""
    return address(SETTING.search((root / "_config.yml").read_text(encoding="utf-8"))[2])


def install_cell(url):
    """The cell that stands before the first code of every notebook, as JSON."""
    source = FETCH.format(address=url, name=url.rsplit("/", 1)[1]) if url else REFUSE
    return {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {"tags": ["remove-cell"]},
            "outputs": [], "source": source.splitlines(keepends=True)}


def with_install_cell(notebook, url):
    """The text of a notebook with this cell, everything else as it was."""
    book = json.loads(notebook)
    if written(book) != notebook:
        raise ValueError("its JSON is not laid out as nbformat writes it; `nbstripout --keep-id` writes it so")
    cells = [cell for cell in book["cells"] if cell.get("id") != "install"]
    first = next((i for i, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    book["cells"] = [*cells[:first], install_cell(url), *cells[first:]]
    return written(book)


def written(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write(root, url):
    """Bring every place to this address; returns the paths that changed."""
    places = {root / "_config.yml": lambda text: SETTING.sub(rf'\1"{url}"', text),
              root / "CITATION.cff": lambda text: CITED.sub("", text) + (f'repository-code: "{url}"\n' if url else "")}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        places[path] = lambda text: with_install_cell(text, url)
    after = {}
    for path, edit in places.items():
        before = path.read_text(encoding="utf-8")
        try:
            text = edit(before)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
        if text != before:
            after[path] = text
    for path, text in after.items():  # all of them, or none
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(after)


def main(arguments):
    try:
        url = address(arguments[0]) if arguments else setting(ROOT)
        changed = write(ROOT, url)
    except (ConfigError, ValueError) as error:
        sys.exit(str(error))
    print(f"repository_url: {url or 'none'}; files changed: {len(changed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
