"""Pack the built site, and the sources to run, into one zip for a USB stick or a course page. It builds nothing.

Usage: python tools/offline.py

The zip lies beside the site, in _build, and holds one folder: index.html to open by a double click, a note that says
so, the PDF if there is one in _build/pdf, and in source/ every file that git tracks but the solutions of graded
assignments. The same files make the same bytes.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "ctc-and-rnnt-differentiated"
LEFT_OUT = {"404.html"}  # for a host; it may name the host's address
SOLUTIONS = (  # and the tests that need them; and how the grader is attacked
    "course/assignments/", "course/corpus/", "course/derivations/", "course/graded/", "course/hostile/",
    "course/ports/", "course/README.md", "course/START_HERE.md", "course/oral.md",
    "tests/test_coursework", "tests/test_derivations.py", "tests/test_instructor_pack.py", "tests/test_teaching",
    "tests/test_vectors.py",
)
NOTE = """CTC and RNN-T, Differentiated

To read: open index.html. Nothing has to be installed, and no network is needed.
To run the notebooks: see source/README.md; in short, "make lab" in the folder source.
"""


def contents(root):
    """Return {name in the folder: path}, and nothing that the build leaves for itself."""
    site = root / "_build" / "html"
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    files = {name: path for name, path in files.items() if name not in LEFT_OUT and not name.startswith(".")}
    files |= {path.name: path for path in (root / "_build" / "pdf").glob("*.pdf")}
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
    names = [name for name in tracked.split("\0") if name and (root / name).exists()]
    names = [name for name in names if not name.startswith(SOLUTIONS)]
    return files | {f"source/{name}": root / name for name in names}


def pack(files, target):
    """Write the zip; what lies on a disk besides names, bytes and the right to run, such as times, is not kept."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted({**files, "README.txt": NOTE.encode()}.items()):
            entry = zipfile.ZipInfo(f"{NAME}/{name}")
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            runs = isinstance(content, Path) and content.stat().st_mode & 0o100
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(entry, content.read_bytes() if isinstance(content, Path) else content, compresslevel=9)


def main():
    if not (ROOT / "_build" / "html" / "index.html").exists():
        sys.exit("There is no site yet: run 'make book' first.")
    target = ROOT / "_build" / f"{NAME}.zip"
    pack(contents(ROOT), target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
