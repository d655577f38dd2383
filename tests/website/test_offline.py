"""The zip for a USB stick, unpacked elsewhere and opened; and the notebooks that pages offer, beside the sources."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from built_site import SITE

ROOT = SITE.parent.parent
sys.path.append(str(ROOT / "tools"))
import offline  # noqa: E402


@pytest.fixture(scope="module")
def unpacked(site, tmp_path_factory):
    """The folder as a student has it: elsewhere, below a name with a space in it."""
    folder = tmp_path_factory.mktemp("on a stick")
    offline.pack(offline.contents(ROOT), folder / "book.zip")
    with zipfile.ZipFile(folder / "book.zip") as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {offline.NAME}
        archive.extractall(folder)
    return folder / offline.NAME


@pytest.mark.parametrize("name", [
    "index.html",
    "book/preface.html",
    "book/laboratory.html",
    "book/clinic.html",
    "book/checks/notebooks/40_ctc_gradient.html",
    "notebooks/40_ctc_gradient.html",
    "notebooks/80_handwritten_digits.html",
    "search.html?q=occupancy",
])
def test_pages_open_from_the_unpacked_folder(unpacked, browser, name):
    problems, loaded = [], []
    tab = browser.new_page()
    tab.on("request", lambda r: loaded.append(r.url))
    tab.on("requestfailed", lambda r: problems.append(f"cannot load {r.url}: {r.failure}"))
    tab.on("console", lambda m: m.type == "error" and problems.append(f"console: {m.text}"))
    tab.on("pageerror", lambda e: problems.append(f"script: {e}"))
    file, _, query = name.partition("?")
    tab.goto((unpacked / file).as_uri() + (f"?{query}" if query else ""))
    if file == "index.html":
        tab.wait_for_url("**/book/preface.html")
    if query:
        tab.wait_for_selector("#search-results li a")
    tab.evaluate("() => window.MathJax?.startup?.promise")
    assert tab.locator("h1").count()
    tab.close()
    assert not problems
    outside = [url for url in loaded if not url.startswith((unpacked.as_uri(), "data:", "blob:"))]
    assert len(loaded) > 5 and not outside


def test_every_link_of_the_unpacked_folder_stays_in_it(unpacked, site):
    for page, soup in site.items():
        copy = unpacked / page.relative_to(SITE)
        assert copy.exists() or page.name == "404.html", page
        for link in soup.select("a[href]"):
            parts = urlsplit(urljoin(copy.as_uri(), link["href"]))
            if copy.exists() and parts.scheme == "file":
                target = Path(unquote(parts.path))
                assert target.is_file() and unpacked in target.parents, f"{page.name}: {link['href']}"


def test_the_sources_can_be_run(unpacked):
    """Every tracked file is there but the solutions of graded assignments, and the package imports from there."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in tracked.splitlines():
        if name.startswith(offline.SOLUTIONS):
            assert not (unpacked / "source" / name).exists()
            continue
        assert (unpacked / "source" / name).read_bytes() == (ROOT / name).read_bytes(), name
    code = "import reference_impl, sys; print(reference_impl.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(unpacked / "source" / "src")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.startswith(str(unpacked))
    assert not list((unpacked / "source" / "course").rglob("*.ipynb"))  # it may lie on a course page


def test_its_tests_miss_nothing(unpacked):
    """`make test` there collects what is left; what needs a solution has to be left out with it."""
    source = unpacked / "source"
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", ""],
                         cwd=source, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]


def test_the_same_files_make_the_same_bytes(tmp_path):
    """Also from another folder, at another time, in another order of creation."""
    digests = []
    for names in ("abc", "cab"):
        folder = tmp_path / names
        (folder / "x").mkdir(parents=True)
        files = {}
        for index, name in enumerate(names):
            path = folder / "x" / f"{name}.html"
            path.write_text(name * 1000)
            os.utime(path, (1e9 + index, 1e9 + index))
            files[f"x/{name}.html"] = path
        offline.pack(files, folder / "book.zip")
        digests.append(hashlib.sha256((folder / "book.zip").read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_the_pdf_goes_along_and_what_is_for_a_host_does_not(tmp_path):
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("html/index.html", "html/404.html", "html/.buildinfo", "pdf/book.pdf"):
        (tmp_path / "_build" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_build" / name).write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "tools"], cwd=tmp_path, check=True)
    files = offline.contents(tmp_path)
    assert {"index.html", "book.pdf", "source/tools/offline.py"} <= set(files)
    assert not {"404.html", ".buildinfo"} & set(files) and not any("_build" in name for name in files)


def test_each_chapter_offers_its_notebook_as_it_is_committed(site):
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) > 18
    for notebook in notebooks:
        page = SITE / "notebooks" / f"{notebook.stem}.html"
        links = [link["href"] for link in site[page].select(".btn-download-source-button[href$='.ipynb']")]
        assert len(links) == 1, page.name
        offered = Path(unquote(urlsplit(urljoin(page.as_uri(), links[0])).path))
        assert offered.read_bytes() == notebook.read_bytes(), f"{page.name} does not offer {notebook.name}"
