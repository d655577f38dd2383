"""What Moodle and Canvas call things: names in their downloads, tables of grades, and what they take back.

It grades nothing and opens no submission. Moodle's forms are those of mod/assign (the folders of "Download all
submissions", the grading worksheet, the zip of feedback files); Canvas's are those of "Download Submissions", of the
gradebook's export and import, and of "Upload Submissions". A table is written back as it came, with grades and comments
filled in.

    python -m coursework.submissions.lms TABLE --students ROSTER

writes the students of a table into a roster: `make roster LMS=table.csv`.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import re
import sys
import unicodedata
import zipfile
from collections import Counter
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from .roster import Roster, Student, alike, decides, named

__all__ = ["Label", "Table", "as_html", "enrolled", "label_of", "upload"]

#: Moodle: Full name_12345_assignsubmission_file[_], a folder, or the beginning of a file's name.
_MOODLE = re.compile(r"([^_]*)_(\d+)_assign(?:submission|feedback)_[a-z]+(?:_(.*))?", re.S)
#: Canvas: lovelaceada_LATE_12345_67890_name.ipynb, with the ids of user and attachment; anon_x7Yz2_67890_name.ipynb.
_CANVAS = re.compile(r"(\w+?)_(LATE_)?(\d+)_(\d+)_(.+)", re.S)
_ANONYMOUS = re.compile(r"(LATE_)?(anon_[^\W_]+)_(\d+)_(.+)", re.S)
_ENCODINGS = ("utf-8-sig", "cp1252")
_POSSIBLE = "Points Possible"
_WITH_ID = re.compile(r"(.*\S)\s*\((\d+)\)\s*")
_MOODLE_COLUMNS = ("Identifier", "Grade", "Last modified (grade)")
_PEOPLE = {  # columns that tell who somebody is
    "moodle": ("Full name", "Email address", "ID number", "Username"),
    "canvas": ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID"),
}
_COMMENTS = "Feedback comments"


@dataclass(frozen=True)
class Label:
    """What the name of a folder or a file in a download says.

    Attributes
    ----------
    lms : str
        "moodle" or "canvas".
    name : str
        Of the student, as the platform writes it there.
    id : str
        The participant's number in Moodle's worksheet, the user's in Canvas; empty for anonymous ones.
    file : str
        The name that the file had; empty for a folder.
    late : bool
    """

    lms: str
    name: str
    id: str
    file: str = ""
    late: bool = False


def label_of(name: str, *, folder: bool) -> Label | None:
    """Read the name of a folder or of a file; None if no platform gives such names.

    Examples
    --------
    >>> label_of("Ada Lovelace_12345_assignsubmission_file_", folder=True)
    Label(lms='moodle', name='Ada Lovelace', id='12345', file='', late=False)
    >>> label_of("lovelaceada_LATE_12345_67890_1_ctc_alpha.ipynb", folder=False)
    Label(lms='canvas', name='lovelaceada', id='12345', file='1_ctc_alpha.ipynb', late=True)
    >>> label_of("1_ctc_alpha.ipynb", folder=False)
    """
    name = unicodedata.normalize("NFC", name)
    if found := _MOODLE.fullmatch(name):
        if folder == (not found[3]):
            return Label("moodle", found[1].strip(), found[2], found[3] or "")
    elif not folder and (found := _ANONYMOUS.fullmatch(name)):
        return Label("canvas", found[2], "", found[4], bool(found[1]))
    elif not folder and (found := _CANVAS.fullmatch(name)):
        return Label("canvas", found[1], found[3], found[5], bool(found[2]))
    return None


class Table:
    """A platform's table of grades: Moodle's grading worksheet, or the CSV that Canvas exports from its gradebook.

    Attributes
    ----------
    lms : str
        "moodle" or "canvas".
    header : list of str
    rows : list of lists of str
        All rows below the header, also those that are no student's.
    """

    def __init__(self, lms, header, rows, delimiter=","):
        self.lms, self.header, self.rows, self.delimiter = lms, header, rows, delimiter

    @classmethod
    def read(cls, path) -> Table:
        """Read a table.

        Raises
        ------
        ValueError
            If it is neither's, with the header that was found.
        """
        text = _text_of(Path(path))
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
        except csv.Error as error:
            raise ValueError(f"LMS = {str(path)!r} is no table: {error}") from None
        header = [each.strip() for each in rows[0]] if rows else []
        if all(name in header for name in _MOODLE_COLUMNS):
            lms = "moodle"
        elif header[:1] in (["Student"], ["LastName"]) and {"ID", "Section"} <= set(header):
            lms = "canvas"
        else:
            raise ValueError(
                f"LMS = {str(path)!r} begins with {', '.join(header)[:200]!r}; expected {', '.join(_MOODLE_COLUMNS)} "
                "of Moodle's grading worksheet, or Student, ID and Section of Canvas's gradebook. Moodle's is in the "
                "language of the account that downloads it: choose English there")
        width = len(header)
        return cls(lms, header, [[*row, *[""] * (width - len(row))] for row in rows[1:]], delimiter)

    def cell(self, row, column) -> str:
        """What a row has in a column; empty if there is no such column."""
        return row[self.header.index(column)].strip() if column in self.header else ""

    def people(self) -> list[list[str]]:
        """The rows that are a student's."""
        if self.lms == "moodle":
            return [row for row in self.rows if self._number(row)]
        return [row for row in self.rows if self.cell(row, "ID") and _POSSIBLE not in row[0]]

    def keys(self, row) -> list[str]:
        """By what a student is known: names, addresses, ids."""
        found = [self.cell(row, column) for column in _PEOPLE[self.lms]]
        if self.lms == "canvas" and self.header[0] == "LastName":
            found.insert(0, f"{row[1]} {row[0]}")
        return [each for each in dict.fromkeys(found) if each and each != "-"]

    def _number(self, row):
        """Moodle's number of a participant, which also stands in the names of folders."""
        found = re.search(r"(\d+)\s*$", self.cell(row, "Identifier"))
        return found[1] if found else ""

    def folder_of(self, row) -> str:
        """What Moodle calls the folder of a student in its downloads, and takes back; empty in Canvas's table.

        Of the name Moodle reads the number only.
        """
        name = re.sub(r"[_/\\]", " ", self.full_name(row))
        return f"{name}_{self._number(row)}_assignsubmission_file_" if self.lms == "moodle" else ""

    def row_of(self, label: Label | None, name: str = "") -> list[str] | None:
        """The row of a label, by its id; without one, the only row with this name."""
        if label and label.id and label.lms == self.lms:
            column = self._number if self.lms == "moodle" else lambda row: self.cell(row, "ID")
            return next((row for row in self.people() if column(row) == label.id), None)
        wanted = alike(label.name if label else name)
        found = [row for row in self.people() if wanted in map(alike, self.keys(row))]
        return found[0] if len(found) == 1 else None

    def row_in(self, roster: Roster, student: str) -> list[str] | None:
        """The row of a student of a roster, by whatever the roster knows them as."""
        found = [row for row in self.people() if roster.find([self.full_name(row), *self.keys(row)]) == student]
        return found[0] if len(found) == 1 else None

    def full_name(self, row) -> str:
        """As it is spoken: first name first."""
        text = self.keys(row)[0] if self.keys(row) else ""
        last, comma, first = text.partition(",")
        return f"{first.strip()} {last.strip()}" if self.lms == "canvas" and comma else text

    def column_of(self, assignment, wanted="") -> str:
        """The column of an assignment's grades: Moodle's only one; of Canvas's the one that is named like it.

        Raises
        ------
        ValueError
            If it is not clear which one, with those that there are.
        """
        if self.lms == "moodle":
            return "Grade"
        named_so = [each for each in self.header if _WITH_ID.fullmatch(each)]
        sought = alike(wanted or assignment)
        found = ([each for each in named_so if sought in (alike(each), alike(_WITH_ID.fullmatch(each)[1]))]
                 or [each for each in named_so if sought in alike(each)])
        if len(found) != 1:
            raise ValueError(f"COLUMN = {wanted or assignment!r}; expected a part of one name of "
                             f"{', '.join(named_so) or 'no assignment'}")
        return found[0]

    def most(self, row, column) -> float | None:
        """The points that the platform has for the whole assignment; None if it does not say."""
        text = self.cell(row, "Maximum Grade")
        if self.lms == "canvas":
            possible = [each for each in self.rows if each and _POSSIBLE in each[0]]
            text = self.cell(possible[0], column) if possible else ""
        try:
            return float(text.replace(",", ".")) or None
        except ValueError:
            return None

    def text(self, columns=None) -> str:
        """As CSV, whole or only these columns."""
        places = [self.header.index(column) for column in columns or self.header]
        file = io.StringIO(newline="")
        table = csv.writer(file, delimiter=self.delimiter)
        table.writerows([row[i] for i in places] for row in [self.header, *self.rows])
        return file.getvalue()


def _text_of(path):
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # as Excel saves "Unicode text"
        return content.decode("utf-16")
    for encoding in _ENCODINGS:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise ValueError(f"LMS = {str(path)!r} is no text in UTF-8 or Windows-1252")


# --- what goes back ---


def upload(table: Table, assignment: str, graded: list[dict], folder, column="") -> list[str]:
    """Write what the platform takes back; sentences about what is in it, and what is not.

    Parameters
    ----------
    table : Table
    assignment : str
    graded : list of dicts
        A student each: ``row`` of the table, ``points``, ``total``, ``comment`` (text), ``feedback`` (name in the zip,
        bytes) or None.
    folder : path
        Gets ``grades.csv`` and ``feedback.zip``.
    column : str
        Of Canvas's table, if no column is named like the assignment.
    """
    column, folder, said = table.column_of(assignment, column), Path(folder), []
    place, scaled = table.header.index(column), set()
    for each in graded:
        row, points = each["row"], each["points"]
        most = table.most(row, column)
        if most and most != each["total"]:
            points *= most / each["total"]
            scaled.add(most)
        row[place] = f"{points:.2f}".rstrip("0").rstrip(".")
        if _COMMENTS in table.header and table.lms == "moodle":
            row[table.header.index(_COMMENTS)] = as_html(each["comment"])
    folder.mkdir(parents=True, exist_ok=True)
    columns = None
    if table.lms == "canvas":  # only what says who it is, and this assignment: nothing else can change
        columns = [*table.header[:table.header.index("Section") + 1], column]
    (folder / "grades.csv").write_text(table.text(columns), encoding="utf-8", newline="")
    said.append(f"{folder / 'grades.csv'}: {_counted(len(graded), 'grade')} in the column {column!r}")
    if scaled:
        said.append(f"the platform has {', '.join(f'{most:g}' for most in sorted(scaled))} points for the assignment; "
                    "grades.csv has the grades in that measure")
    if table.lms == "moodle" and _COMMENTS not in table.header:
        said.append(f"there is no column {_COMMENTS!r}: switch on feedback comments in the assignment's settings to "
                    "upload the reports with the grades")
    with zipfile.ZipFile(folder / "feedback.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        files = [each["feedback"] for each in graded if each["feedback"]]
        for name, content in files:
            archive.writestr(name, content)
    said.append(f"{folder / 'feedback.zip'}: {_counted(len(files), 'file')}")
    return said


def as_html(report: str) -> str:
    """A report as Moodle shows it in a comment, in one line: headings bold, drawn inputs with their columns kept.

    Examples
    --------
    >>> as_html("# ada: 4 of 6\\n\\n- It says 1 < 2:\\n\\n      x  1\\n      y  2\\n")
    '<p><strong>ada: 4 of 6</strong></p><p>It says 1 &lt; 2:</p><pre>x  1<br>y  2</pre>'
    """
    pieces, drawn = [], []
    for line in [*html.escape(report).split("\n"), ""]:
        if line.startswith("      "):
            drawn.append(line[6:])
            continue
        if drawn:
            pieces.append(f"<pre>{'<br>'.join(drawn)}</pre>")
            drawn = []
        if heading := re.fullmatch(r"#+ (.*)", line):
            pieces.append(f"<p><strong>{heading[1]}</strong></p>")
        elif line.strip():
            pieces.append(f"<p>{line.strip().removeprefix('- ')}</p>")
    return "".join(pieces)


def _counted(number, what):
    return f"{number} {what}" + "s" * (number != 1)


# --- the roster of a table ---


def enrolled(table: Table, roster: Roster) -> tuple[Roster, list[str]]:
    """The roster with those of the table that it does not know, and the addresses and ids of the others; the new names.

    A name that a roster has stays as it is, since a student's numbers follow from it. It gets no other names: another
    student, who is not in this table, may be called so.
    """
    people = [(table.full_name(row), table.keys(row)) for row in table.people()]
    counted = Counter(key for name, keys in people for key in {alike(each) for each in (name, *keys)})
    students, new = {each.name: each for each in roster.students}, []
    known = {alike(key) for each in roster.students for key in (each.name, *each.known_as)}
    for full, keys in people:
        keys = [each for each in dict.fromkeys([full, *keys]) if counted[alike(each)] == 1]
        if not keys:
            raise ValueError(f"two students are called {full!r}, and nothing else tells them apart; expected a column "
                             "with addresses or ids in the table")
        if found := roster.find(keys):
            more = [key for key in keys if decides(key) and alike(key) not in known]
            students[found] = Student(found, (*students[found].known_as, *more))
            continue
        base = named(full) or "student"  # with a number, if others are called so too
        numbered = (f"{base}_{n}" for n in count(1))
        alone = [base] * (counted[alike(full)] == 1)
        name = next(each for each in chain(alone, numbered) if each not in students)
        students[name] = Student(name, tuple(each for each in keys if alike(each) != alike(name)))
        new.append(name)
    return Roster(students.values()), new


def main():
    arguments = argparse.ArgumentParser(description="Write the students of a platform's table into a roster.")
    arguments.add_argument("table", type=Path)
    arguments.add_argument("--students", type=Path, default=Path("roster.txt"))
    given = arguments.parse_args()
    try:
        before = Roster.read(given.students) if given.students.exists() else Roster()
        roster, new = enrolled(Table.read(given.table), before)
        given.students.write_text(roster.lines(), encoding="utf-8")
    except (ValueError, OSError) as error:
        sys.exit(f"make roster: {error}")
    known = {each.name: each for each in before.students}
    added = [each.name for each in roster.students if each.name in known and each != known[each.name]]
    print(f"{given.students}: {len(roster.students)} students, {len(new)} of them new"
          + (f"; addresses or ids added for {len(added)}" if added else ""))


if __name__ == "__main__":
    main()
