"""Moodle's and Canvas's names and tables, and what goes back to them, read as their own programs read it.

The rules are those of mod/assign/feedback/offline/importgradeslib.php and mod/assign/feedback/file/importziplib.php of
Moodle, and of lib/gradebook_importer.rb and app/models/abstract_assignment.rb of Canvas. Neither was run.
"""

import csv
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coursework.handing_out import for_moodle
from coursework.submissions.collecting import collect
from coursework.submissions.lms import Label, Table, enrolled, label_of, upload
from coursework.submissions.roster import Roster, Student, alike, named

SRC = Path(__file__).parents[1] / "src"

WORKSHEET = """\
Identifier,"Full name","ID number","Email address",Status,Grade,"Maximum Grade","Grade can be changed",\
"Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 101","Ada Lovelace",4711,ada@example.org,"Submitted for grading",,10.00,Yes,"Monday, 5 May, 9:00",-,
"Participant 102","Zoë Müller",4712,zoe@example.org,"Submitted for grading",3.00,10.00,Yes,-,-,"old
comment"
"Participant 103","Emmy Noether",,emmy@example.org,"No submission",,10.00,Yes,-,-,
"""
GRADEBOOK = """\
Student,ID,SIS User ID,SIS Login ID,Section,Notes,1_ctc_alpha (551),"Essay, short (552)",Current Score,Final Score
,,,,,,Manual Posting,,,
    Points Possible,,,,,,10,5,(read only),(read only)
"Lovelace, Ada",101,s4711,ada@example.org,Group 1,,,4.5,90,90
"Müller, Zoë",102,s4712,zoe@example.org,Group 1,x,3,,60,60
"Noether, Emmy",103,s4713,emmy@example.org,Group 1,,N/A,,0,0
"Student, Test",104,,test,Group 1,,,,,
"""


def table(tmp_path, text, encoding="utf-8"):
    (tmp_path / "table.csv").write_text(text, encoding=encoding, newline="")
    return Table.read(tmp_path / "table.csv")


# --- names ---


@pytest.mark.parametrize("name, folder, label", [
    ("Ada Lovelace_101_assignsubmission_file_", True, Label("moodle", "Ada Lovelace", "101")),
    ("Ada Lovelace_101_assignsubmission_file", True, Label("moodle", "Ada Lovelace", "101")),  # from 4.1 on
    ("ada Ada Lovelace_101_assignsubmission_file_", True, Label("moodle", "ada Ada Lovelace", "101")),
    ("Participant_101_assignsubmission_onlinetext_", True, Label("moodle", "Participant", "101")),
    ("Ada Lovelace_101_assignsubmission_file_1_ctc_alpha.ipynb", False,
     Label("moodle", "Ada Lovelace", "101", "1_ctc_alpha.ipynb")),
    ("lovelaceada_101_9001_1_ctc_alpha.ipynb", False, Label("canvas", "lovelaceada", "101", "1_ctc_alpha.ipynb")),
    ("lovelaceada_LATE_101_9001_1_ctc_alpha-2.ipynb", False,
     Label("canvas", "lovelaceada", "101", "1_ctc_alpha-2.ipynb", late=True)),
    ("anon_x7Yz_9001_1_ctc_alpha.ipynb", False, Label("canvas", "anon_x7Yz", "", "1_ctc_alpha.ipynb")),
    ("LATE_anon_x7Yz_9001_1_ctc_alpha.ipynb", False, Label("canvas", "anon_x7Yz", "", "1_ctc_alpha.ipynb", late=True)),
    ("müllerzoë_102_9002_Zoë's answer.ipynb", False, Label("canvas", "müllerzoë", "102", "Zoë's answer.ipynb")),
    ("1_ctc_alpha.ipynb", False, None), ("1_ctc_alpha (1).ipynb", False, None), ("ada", True, None),
    ("lovelaceada_101_9001_1_ctc_alpha.ipynb", True, None), ("Ada_Lovelace", True, None), ("", True, None),
])
def test_labels(name, folder, label):
    assert label_of(name, folder=folder) == label


def test_names_that_are_alike():
    assert alike("O'Brien,  Zoe\u0308") == alike("obrien zoë") == "obrien zoë"
    assert alike("Ada Lovelace") != alike("Lovelace Ada")


@pytest.mark.parametrize("text, name", [
    ("Ada Lovelace", "Ada_Lovelace"), (" Zoe\u0308 ", "Zoë"), ("李明", "李明"), ("../../etc", "etc"), ("!!", ""),
    ("x" * 300, "x" * 80),
])
def test_names_of_folders(text, name):
    assert named(text) == name


# --- tables ---


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_worksheet_of_moodle(tmp_path, encoding):
    found = table(tmp_path, WORKSHEET, encoding)
    assert found.lms == "moodle" and len(found.people()) == 3
    row = found.row_of(Label("moodle", "whoever", "102"))
    assert found.keys(row) == ["Zoë Müller", "zoe@example.org", "4712"]
    assert found.row_of(Label("moodle", "Ada Lovelace", "999")) is None
    assert found.full_name(found.row_of(None, "EMMY  NOETHER")) == "Emmy Noether"


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_gradebook_of_canvas(tmp_path, delimiter):
    rows = csv.reader(GRADEBOOK.splitlines())
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    found = table(tmp_path, text.getvalue(), "utf-8-sig")
    assert found.lms == "canvas" and [row[1] for row in found.people()] == ["101", "102", "103", "104"]
    row = found.row_of(Label("canvas", "müllerzoë", "102"))
    assert found.full_name(row) == "Zoë Müller" and "zoe@example.org" in found.keys(row)
    assert found.column_of("1_ctc_alpha") == "1_ctc_alpha (551)"
    assert found.column_of("1_ctc_alpha", "essay") == "Essay, short (552)"
    assert found.most(row, "1_ctc_alpha (551)") == 10
    with pytest.raises(ValueError, match=r"COLUMN = '2_ctc_beta'; expected a part of one name of 1_ctc_alpha \(551\)"):
        found.column_of("2_ctc_beta")


@pytest.mark.parametrize("text, said", [
    ("", "begins with ''"), ("a,b\n1,2\n", "begins with 'a, b'"),
    ("Identifier,Vollständiger Name,Bewertung\n", "choose English there"), ("Student,ID,Essay (7)\n", "Section"),
    ("Student,ID,Section\n" + '"' + "x" * 200_000 + '"', "is no table: field larger than"),
])
def test_what_is_no_table(tmp_path, text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        table(tmp_path, text)


# --- the roster ---


def test_a_roster_from_a_table(tmp_path):
    """Names of the roster stay; new students get one of their own."""
    first = Roster([Student("zoe", ("zoe@example.org",))])
    roster, new = enrolled(table(tmp_path, WORKSHEET), first)
    assert new == ["Ada_Lovelace", "Emmy_Noether"] and [each.name for each in roster.students][0] == "zoe"
    (tmp_path / "roster.txt").write_text(roster.lines(), encoding="utf-8")
    again = Roster.read(tmp_path / "roster.txt")
    assert again.students == roster.students
    assert again.find(["ada@example.org"]) == again.find(["4711"]) == again.find(["ADA LOVELACE"]) == "Ada_Lovelace"
    assert again.find(["Müller"]) == again.find([]) == again.find(["ada@example.org", "emmy@example.org"]) == ""
    assert enrolled(table(tmp_path, WORKSHEET), again)[1] == []
    of_canvas, new = enrolled(table(tmp_path, GRADEBOOK), again)
    assert new == ["Test_Student"] and of_canvas.find(["101"]) == "Ada_Lovelace"


def test_a_plain_roster_gets_addresses(tmp_path):
    """Of those that it knows by name, so that they are found by another name, too; nobody gets what is another's.

    No name is added: of two who are called the same, the table may have one.
    """
    plain = Roster([Student("Ada_Lovelace"), Student("emmy", ("Emmy Noether",)), Student("karl", ("zoe@example.org",))])
    roster, new = enrolled(table(tmp_path, WORKSHEET), plain)
    assert new == [] and [each.name for each in roster.students] == ["Ada_Lovelace", "emmy", "karl"]
    assert roster.students[0].known_as == ("ada@example.org", "4711")
    assert roster.find(["Ada King", "ada@example.org"]) == "Ada_Lovelace" and roster.find(["4712"]) == "karl"
    mixed = Roster([Student("Ada_Lovelace"), Student("karl", ("4711",))])  # the number decides, and says karl
    roster, new = enrolled(table(tmp_path, WORKSHEET), mixed)
    assert roster.students[0] == Student("Ada_Lovelace") and roster.find(["ada@example.org"]) == "karl"
    two = enrolled(table(tmp_path, WORKSHEET.replace("Emmy Noether", "Ada Lovelace")), Roster())[0]
    roster, new = enrolled(table(tmp_path, GRADEBOOK), two)
    assert roster.find(["101"]) == "Ada_Lovelace_1" and roster.find(["Ada Lovelace"]) == ""
    (tmp_path / "roster.txt").write_text(roster.lines(), encoding="utf-8")
    assert Roster.read(tmp_path / "roster.txt").students == roster.students


def test_two_of_one_name(tmp_path):
    """They are told apart by address or id; if there is none, it is an error."""
    text = WORKSHEET.replace("Emmy Noether", "Ada Lovelace")
    roster, new = enrolled(table(tmp_path, text), Roster())
    assert new == ["Ada_Lovelace_1", "Zoë_Müller", "Ada_Lovelace_2"]
    assert roster.find(["Ada Lovelace", "emmy@example.org"]) == "Ada_Lovelace_2" and roster.find(["Ada Lovelace"]) == ""
    bare = "\n".join(line for line in text.replace("emmy@example.org", "").replace("ada@example.org", "").replace(
        "4711", "").splitlines())
    with pytest.raises(ValueError, match="two students are called 'Ada Lovelace', and nothing else tells them apart"):
        enrolled(table(tmp_path, bare), Roster())


@pytest.mark.parametrize("text, said", [
    ("ada\nada\n", "'ada'; expected names of letters, digits, . _ - and each once"), ("a/b\n", "'a/b'; expected names"),
    ("Ada Lovelace\n", "'Ada Lovelace'; expected names"),
    ("ada, Ada L\nemmy, ada l\n", "ada, emmy are all known as 'ada l'; expected different"),
])
def test_what_is_no_roster(tmp_path, text, said):
    (tmp_path / "roster.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)):
        Roster.read(tmp_path / "roster.txt")


def test_the_command(tmp_path):
    (tmp_path / "table.csv").write_text(WORKSHEET, encoding="utf-8")
    (tmp_path / "roster.txt").write_text("\ufeffzoe,  Zoe\u0308 Müller\n\nkarl\n", encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", "coursework.submissions.lms", "table.csv"], cwd=tmp_path,
                         capture_output=True, text=True, env={"PYTHONPATH": str(SRC)}, check=True)
    assert run.stdout == "roster.txt: 4 students, 2 of them new; addresses or ids added for 1\n"
    assert [each.name for each in Roster.read(tmp_path / "roster.txt").students] == [
        "zoe", "karl", "Ada_Lovelace", "Emmy_Noether"]


# --- what goes back ---


def sent(tmp_path, text, points=(9.5, 10), labels=("Ada Lovelace_101_assignsubmission_file_",
                                                  "Zoë Müller_102_assignsubmission_file")):
    """Ada's and Zoë's grades uploaded; what is said, the table as rows, the names in the zip."""
    found = table(tmp_path, text)
    graded = [{"row": found.row_of(Label(found.lms, "", number)), "points": each, "total": 10.0,
               "comment": f"# {number}\n\n- it says 1 < 2", "feedback": (f"{label}/1_ctc_alpha.html", b"<p>")}
              for number, each, label in zip(("101", "102"), points, labels, strict=True)]
    said = upload(found, "1_ctc_alpha", graded, tmp_path / "upload")
    content = (tmp_path / "upload" / "grades.csv").read_text(encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "upload" / "feedback.zip") as archive:
        return said, list(csv.reader(io.StringIO(content, newline=""))), archive.namelist()


def test_moodle_takes_the_worksheet(tmp_path):
    """The three columns that it asks for, the participant's number at the end of the identifier, comments as HTML."""
    said, (header, *rows), names = sent(tmp_path, WORKSHEET)
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(header)
    taken = {row[0][len("Participant "):]: (row[header.index("Grade")], row[header.index("Feedback comments")])
             for row in rows}
    said_of = "<p><strong>{}</strong></p><p>it says 1 &lt; 2</p>".format
    assert taken == {"101": ("9.5", said_of(101)), "102": ("10", said_of(102)), "103": ("", "")}
    assert [row[:5] for row in rows] == [row[:5] for row in csv.reader(WORKSHEET.splitlines()[1:]) if len(row) > 4]
    for name, number in zip(names, ("101", "102"), strict=True):  # as explode('_', $pathpart, 5) sees it
        info = name.split("/")[0].split("_", 4)
        assert len(info) >= 4 and info[1:4] == [number, "assignsubmission", "file"]
    assert said[0].endswith("grades.csv: 2 grades in the column 'Grade'") and said[-1].endswith("feedback.zip: 2 files")


def test_another_maximum(tmp_path):
    """Moodle's is 100 unless somebody changes it. The grade is converted, and it is said."""
    said, (header, *rows), _ = sent(tmp_path, WORKSHEET.replace("10.00", "100.00"))
    assert [row[header.index("Grade")] for row in rows] == ["95", "100", ""]
    assert "the platform has 100 points for the assignment" in said[1]


def test_no_column_of_comments(tmp_path):
    text = WORKSHEET.replace(',"Feedback comments"', "").replace(',"old\ncomment"', "").replace("-,\n", "-\n")
    said, _, _ = sent(tmp_path, text)
    assert any("switch on feedback comments" in each for each in said)


def test_canvas_takes_its_gradebook(tmp_path):
    """Who it is and one assignment; other columns, and grades of others, cannot change."""
    said, (header, *rows), names = sent(tmp_path, GRADEBOOK, labels=("lovelaceada_101_9001_x", "müllerzoë_102_9002_x"))
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "1_ctc_alpha (551)"]
    assert len(header) > 3 and "Student" in header[0] and "ID" in header[1]  # row_has_student_headers?
    assert {row[1]: row[-1] for row in rows if row[1]} == {"101": "9.5", "102": "10", "103": "N/A", "104": ""}
    assert [row[-1] for row in rows if "Points Possible" in row[0]] == ["10"]
    assert said[0].endswith("2 grades in the column '1_ctc_alpha (551)'")
    for name, ids in zip(names, (["101", "9001"], ["102", "9002"]), strict=True):
        assert [each for each in name.split("_") if re.fullmatch(r"\d+", each)][:2] == ids


def test_a_table_finds_the_students_of_a_download(tmp_path):
    """By Moodle's number, whatever the folder is called; and through the table in the roster, by address."""
    there = tmp_path / "in" / "Ada King_101_assignsubmission_file_"
    there.mkdir(parents=True)
    (there / "1_ctc_alpha.ipynb").write_text("{}")
    found = table(tmp_path, WORKSHEET)
    submission, = collect(tmp_path / "in", table=found)[0]
    assert submission.student == "Ada_Lovelace" and submission.row[0] == "Participant 101"
    submission, = collect(tmp_path / "in", table=found, roster=Roster([Student("ada", ("ada@example.org",))]))[0]
    assert submission.student == "ada"
    assert collect(tmp_path / "in", roster=Roster([Student("ada", ("ada@example.org",))]))[0] == []


def test_a_folder_by_the_name_of_the_roster_has_its_row(tmp_path):
    """As when one student's file is graded alone: the roster, not the name of the folder, leads to the row."""
    found = table(tmp_path, WORKSHEET.replace("Zoë Müller", "Ada Lovelace"))
    roster, _ = enrolled(found, Roster())
    assert [student.name for student in roster.students][:2] == ["Ada_Lovelace_1", "Ada_Lovelace_2"]
    there = tmp_path / "late" / "Ada_Lovelace_2"
    there.mkdir(parents=True)
    (there / "1_ctc_alpha.ipynb").write_text("{}")
    submission, = collect(tmp_path / "late", table=found, roster=roster)[0]
    assert submission.row[0] == "Participant 102"
    assert found.folder_of(submission.row) == "Ada Lovelace_102_assignsubmission_file_"
    assert label_of(found.folder_of(submission.row), folder=True).id == "102"


def test_moodle_gives_each_student_their_own_notebook(tmp_path):
    """As feedback files, whose folders lead back to the student; who is not in the table is named. Canvas can't."""
    found = table(tmp_path, WORKSHEET)
    roster = Roster([*enrolled(found, Roster([Student("zoe", ("zoe@example.org",))]))[0].students, Student("karl")])
    for student in roster.students:
        (tmp_path / student.name).mkdir()
        (tmp_path / student.name / "1_ctc_alpha.ipynb").write_text(student.name, encoding="utf-8")
    path, missing = for_moodle(found, roster, "1_ctc_alpha", tmp_path)
    assert missing == ["karl"]
    with zipfile.ZipFile(path) as archive:
        assert {name.split("_")[1]: archive.read(name).decode() for name in archive.namelist()} == {
            "101": "Ada_Lovelace", "102": "zoe", "103": "Emmy_Noether"}
        assert all(name.endswith("_assignsubmission_file_/1_ctc_alpha.ipynb") for name in archive.namelist())
    with pytest.raises(ValueError, match="expected Moodle's grading worksheet"):
        for_moodle(table(tmp_path, GRADEBOOK), roster, "1_ctc_alpha", tmp_path)
