"""Writes an exam for a class, a sheet and a key for each student, as pages and as Markdown: `make exam`.

    python -m coursework.exams TITLE [--students FILE] [--kinds 10] [--options] [--out FOLDER]

FILE has a student's name in each line. Each gets a sheet with numbers of their own, drawn from the secret of the
course, the title and the name. Without FILE there is one sheet with numbers that everybody can draw: a specimen. Needs
the environment of course/requirements.txt, for the pages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..grading.course_secret import secret_of
from ..handing_out import names
from ..release import number_of
from .bank import sheet


def main():
    arguments = argparse.ArgumentParser(description="Draw an exam with numbers of each student's own, and its keys.")
    arguments.add_argument("title")
    arguments.add_argument("--students", type=Path)
    arguments.add_argument("--kinds", type=int, default=10, help="of questions on a sheet")
    arguments.add_argument("--options", action="store_true", help="print four options below each question")
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    given = arguments.parse_args()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        students = names(given.students)
        secret = secret_of(given.out) if students else ""
        drawn = [sheet(given.title, student, number_of(f"{secret}/exam/{given.title}/{student}"), given.kinds)
                 for student in students or ["specimen"]]
        folder = given.out / "exams" / "".join(c if c.isalnum() else "_" for c in given.title)
        _write(drawn, folder, given.options)
    except (ValueError, OSError) as error:
        sys.exit(f"make exam: {error}")
    one = drawn[0]
    print(f"{len(drawn)} {'sheets' if len(drawn) > 1 else 'sheet'} of {len(one.questions)} questions, {one.points} "
          f"points, {one.minutes} minutes: {folder / 'sheets'}, and {folder / 'all_sheets.html'} to print; keys, for "
          f"you alone: {folder / 'keys'}, {folder / 'all_keys.html'}")


def _write(sheets, folder, options):
    from ..pages import of_markdown  # it takes seconds, and what cannot be drawn is said before

    for kind, text_of in (("sheets", lambda one: one.markdown(options=options)), ("keys", lambda one: one.key())):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for one in sheets:
            path = folder / kind / f"{one.name}.html"
            path.with_suffix(".md").write_text(text_of(one), encoding="utf-8")
            path.write_text(of_markdown(text_of(one), f"{one.title}: {one.name}"), encoding="utf-8")
        together = "\n\n".join(map(text_of, sheets))  # each sheet begins with a heading of the first level, and a page
        (folder / f"all_{kind}.html").write_text(of_markdown(together, f"{sheets[0].title}: {kind}"), encoding="utf-8")


if __name__ == "__main__":
    main()
