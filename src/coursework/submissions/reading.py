"""From the bytes of a student's file to a notebook that can be graded, and notes on what was done. It judges nothing.

The result is built anew from the notebook that was handed out and the student's texts. So whatever a file holds, what
goes on to nbgrader has every locked cell once, as it was handed out, and marks that nbgrader understands. Cells stay
where the student has them. Which cell is which is told by nbgrader's mark, else by the cell's id, else by its text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from .collecting import Unreadable, candidates

__all__ = ["LARGEST", "NoNotebook", "Reading", "Undecided", "of_assignment", "read_files", "read_submission"]

#: Bytes of a file that are read. Outputs of an honest notebook can be many megabytes.
LARGEST = 50_000_000
_CELLS = 2_000
_CODE = 1_000_000  # characters of all code together; more is not written by hand
_TEXT, _ALL_TEXT = 5_000, 50_000  # characters of a cell of text, and of all of them: what feedback shows
_SHOWN = 60  # characters of a name in a note
_NOTES = 20
_FILES = 10  # notebooks of a student that are opened
_KINDS = ("code", "markdown", "raw")
_PICTURE = re.compile(r"data:[\w/+.-]{1,80};base64,[A-Za-z0-9+/=\s]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_VARIANT = re.compile(r"^variant = (\d{1,9})\b", re.M)
_IMPORT = re.compile(r"(import|from)\s+\w")
_DEFINITION = re.compile(r"^(?:def\s+(\w+)|(\w+)\s*=(?!=))", re.M)
_NAMED = re.compile(r"""^ASSIGNMENT\s*=\s*["'](\w+)["']""", re.M)


class NoNotebook(Exception):
    """A file cannot be read as a notebook; the message is a sentence for the report.

    No mark follows from that, not 0 either: a person has to look at what was handed in.
    """


class Undecided(NoNotebook):
    """It may be the notebook that was meant, so no other is graded in its place."""


@dataclass
class Reading:
    """A notebook that can be graded.

    Attributes
    ----------
    notebook : dict
        Of nbformat 4.5, with every locked cell.
    notes : list of str
        What was repaired, and how it was decided.
    answers : dict
        By answer cell, the texts that the student has put there, without what is as it was handed out.
    variant : int or None
        The number of the numbers that the notebook was made with.
    content : bytes
        Of the file.
    """

    notebook: dict
    notes: list[str]
    answers: dict[str, tuple[str, ...]]
    variant: int | None = None
    content: bytes = field(default=b"", repr=False)


@dataclass(eq=False)  # two cells can be alike
class _Cell:
    """A cell of the student, or one that was put back.

    ``role`` is the mark of the cell of ours that it is; ``besides`` are the answers that were written into it, too.
    """

    kind: str
    text: str
    role: str = ""
    besides: list[str] = field(default_factory=list)


class _Released:
    """What was handed out: the marked cells in their order."""

    def __init__(self, notebook):
        self.notebook = notebook
        marked = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id")]
        self.cells = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in marked}
        self.order = list(self.cells)
        self.text = {role: _plain(_joined(cell["source"])) for role, cell in self.cells.items()}
        self.by_id = {cell["id"]: role for role, cell in self.cells.items() if "id" in cell}
        self.by_text = {self.text[role]: role for role in self.order if self.locked(role)}
        self.names = {role: set(_defined(self.text[role])) for role in self.answers()}

    def locked(self, role):
        return bool(self.cells[role]["metadata"]["nbgrader"].get("locked"))

    def graded(self, role):
        return bool(self.cells[role]["metadata"]["nbgrader"].get("grade"))

    def answers(self):
        return [role for role in self.order if not self.locked(role)]

    def place(self, role):
        return self.order.index(role)


def read_submission(content: bytes, released: dict) -> Reading:
    """Read a submitted file.

    Parameters
    ----------
    content : bytes
        Of the file, whatever they are.
    released : dict
        The notebook that was handed out.

    Raises
    ------
    NoNotebook
        If it is none, with the reason.
    """
    ours, notes = _Released(released), []
    data = _parsed(_decoded(content, notes))
    cells = _cells(data, ours, notes)
    texts = "\n".join(cell.text for cell in cells if cell.kind == "code")
    if len(texts) > _CODE:
        raise Undecided(f"Its code has {len(texts)} characters; expected at most {_CODE}. It was not run.")
    variant = _VARIANT.search(texts)
    cells = _joined_again(_parted(cells, ours, notes), ours, notes)
    cells = _with_answers(_found_elsewhere(cells, ours, notes), ours, notes)
    answers = {role: tuple(cell.text for cell in cells if _answers(cell, role, ours)) for role in ours.names}
    cells = _with_locked(cells, ours, notes)
    cells = _given_above_answers(cells, ours, notes)
    cells = _checks_below_answers(cells, ours, notes)
    if len(notes) > _NOTES:
        notes[_NOTES:] = [f"There are {len(notes) - _NOTES} more notes like these."]
    return Reading(_written(cells, ours), notes, answers, int(variant[1]) if variant else None, content)


def read_files(files, assignment: str, released: dict) -> Reading:
    """The notebook among a student's files that was meant, by name, or else by what it says that it is.

    Parameters
    ----------
    files : list of collecting.File
    assignment : str
    released : dict

    Raises
    ------
    NoNotebook
        If there is none that can be read.
    Undecided
        If the reason is ours, or if two could be meant and differ.
    """
    found = candidates(files, assignment)
    read, failed = [], []
    for rank in (0, 1, 2):
        if rank == 2 and any(any(reading.answers.values()) for *_, reading in read):
            break
        for _, file in [each for each in found if each[0] == rank][:_FILES]:
            try:
                content = file.read(LARGEST)
                if rank < 2 or of_assignment(content) == assignment:
                    read.append((rank, file, read_submission(content, released)))
            except (Unreadable, NoNotebook) as error:
                failed.append((rank, file, error))
    failed = [each for each in failed if each[0] < 2 or not read]
    if not read:
        raise _reason(files, failed, assignment)
    if any(_is_ours(error) and (rank, file.depth) <= (read[0][0], read[0][1].depth) for rank, file, error in failed):
        raise _reason(files, failed, assignment)
    return _meant(read, failed, assignment)


def _is_ours(error):
    return isinstance(error, Undecided) or getattr(error, "ours", False)


def _reason(files, failed, assignment):
    if not failed:
        packed = [file.shown for file in files if file.name.lower().endswith((".zip", ".tar", ".gz", ".7z", ".rar"))]
        there = ", ".join(file.shown for file in files[:_FILES]) + (", ..." if len(files) > _FILES else "")
        more = (f" There is {packed[0]}, which was not opened." if packed else
                f" There is {there}." if there else " There is no file at all.")
        return (Undecided if packed else NoNotebook)(f"There is no file {assignment}.ipynb.{more}")
    kind = Undecided if any(_is_ours(error) for *_, error in failed) else NoNotebook
    several = len(failed) > 1
    return kind(" ".join(f"{file.shown}: {error}" if several else str(error) for _, file, error in failed[:5]))


def _meant(read, failed, assignment):
    """Of several notebooks the one that was meant."""
    rank, file, reading = read[0]
    notes = [] if rank == 0 else [f"{file.shown} was graded, since there is no readable {assignment}.ipynb."]
    notes += [f"{each.shown} was not graded. {error}" for _, each, error in failed]
    worked = [each for each in read if any(each[2].answers.values())]
    if worked and worked[0] is not read[0]:
        rank, file, reading = worked[0]
        notes = [f"{file.shown} was graded, since {read[0][1].shown} has no answer."]
    others = [each for each in worked if each[2].answers != reading.answers]
    if others and rank > 0:
        shown = " and ".join(each[1].shown for each in [(rank, file, reading), *others][:5])
        raise Undecided(f"{shown} have different answers, and it is not clear which was meant. Keep one, named "
                        f"{assignment}.ipynb.")
    notes += [f"There is {each[1].shown} besides, with other answers; it was not graded." for each in others]
    reading.notes[:0] = notes
    return reading


def of_assignment(content: bytes) -> str:
    """The assignment whose notebook these bytes are, as its first cell says; empty if none can be found."""
    try:
        data = _parsed(_decoded(content, []))
    except NoNotebook:
        return ""
    for cell in _raw_cells(data) or []:
        if isinstance(cell, dict) and (found := _NAMED.search(_plain(_joined(_source(cell))))):
            return found[1]
    return ""


# --- from bytes to cells ---


def _decoded(content, notes):
    """JSON in any Unicode encoding, with or without a byte order mark; what is none is taken for Windows-1252."""
    if not content.strip(b"\0 \t\r\n"):
        raise NoNotebook("The file is not a notebook: it is empty.")
    encoding = json.detect_encoding(content)
    try:
        text = content.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        text = content.decode(encoding, "replace")
        damaged = text.count("\ufffd")
        if damaged < sum(sign > "\x7f" for sign in text) / 2:
            notes.append(f"{damaged} places of the file are not in {encoding.upper()}, as the rest is. They cannot be "
                         "read.")
        else:
            text = content.decode("cp1252", "replace")
            notes.append(f"The file is not in {encoding.upper()}, as notebooks are. It was read as Windows-1252.")
    return text.removeprefix("\ufeff")


def _parsed(text):
    try:
        data = json.loads(text)
    except RecursionError:
        raise NoNotebook("The file is not a notebook: it is nested too deeply.") from None
    except ValueError as error:
        instead = _instead(text)
        why = f", but {instead}. Hand in the .ipynb file itself" if instead else f": it is no JSON ({str(error)[:200]})"
        raise NoNotebook(f"The file is not a notebook{why}.") from None
    if not isinstance(data, dict) or _raw_cells(data) is None:
        raise NoNotebook("The file is not a notebook: it has no list of cells.")
    return data


def _instead(text):
    """What the file is instead, by how it begins; empty if that says nothing."""
    kinds = (("%PDF", "a PDF"), ("PK\3\4", "a zip"), ("<", "a page of HTML or XML"))
    return next((what for begin, what in kinds if text.lstrip().startswith(begin)), "")


def _raw_cells(data):
    """The cells of a notebook: of format 4, or those of all worksheets of an older one; None if there is no list."""
    if isinstance(data.get("cells"), list):
        return data["cells"]
    sheets = data.get("worksheets")
    if not isinstance(sheets, list):
        return None
    return [cell for sheet in sheets if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
            for cell in sheet["cells"]]


def _source(cell):
    return cell.get("source", cell.get("input", ""))


def _joined(source):
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _plain(text):
    """With one kind of line break, and no halves of characters."""
    return _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _cells(data, ours, notes):
    raw = _raw_cells(data)
    if len(raw) > _CELLS:
        raise Undecided(f"It has {len(raw)} cells; expected at most {_CELLS}. It was not run.")
    version = data.get("nbformat")
    if version != 4 or isinstance(version, bool):
        notes.append(f"The file says that its notebook format is {repr(version)[:_SHOWN]}; expected 4. It was read by "
                     "what it holds.")
    cells, broken, by_id = [], 0, []
    for cell in raw:
        if not isinstance(cell, dict) or not isinstance(_source(cell), str | list):
            broken += 1
            continue
        text = _plain(_joined(_source(cell)))
        kind = cell.get("cell_type")
        if kind == "heading":  # of format 3
            kind, text = "markdown", f"# {text}"
        role = _role(cell, ours, notes)
        if not role and (role := _by_id(cell, ours)):
            by_id.append(role)
        if role and kind != ours.cells[role]["cell_type"]:
            if not ours.locked(role):
                notes.append(f"The answer cell {role!r} had become a cell of type {str(kind)[:_SHOWN]!r}; it was run "
                             "as code.")
            kind = ours.cells[role]["cell_type"]
        if text.strip() or role:
            cells.append(_Cell(kind if kind in _KINDS else "raw", text, role))
    if by_id:
        notes.append("nbgrader's marks are missing; these cells were recognised by their ids: "
                     f"{', '.join(by_id)[:300]}.")
    if broken:
        notes.append(f"{broken} entries of the file are no cells, and were left out.")
    return _told_by_text(cells, ours)


def _role(cell, ours, notes):
    """Which cell of ours this is, by its mark."""
    mark = _metadata(cell).get("nbgrader")
    name = mark.get("grade_id") if isinstance(mark, dict) else None
    if not isinstance(name, str) or not name or name in ours.cells:
        return name if isinstance(name, str) else ""
    notes.append(f"The graded cell {name[:_SHOWN]!r} is none of ours. It counts as an ordinary cell.")
    return ""


def _by_id(cell, ours):
    """The same, by the cell's id, if it has no mark."""
    mark = _metadata(cell).get("nbgrader")
    if isinstance(mark, dict) and isinstance(mark.get("grade_id"), str) and mark["grade_id"]:
        return ""
    ids = [each for each in (cell.get("id"), _metadata(cell).get("id")) if isinstance(each, str)]
    return next((ours.by_id[each] for each in ids if each in ours.by_id), "")


def _metadata(cell):
    return cell["metadata"] if isinstance(cell.get("metadata"), dict) else {}


def _told_by_text(cells, ours):
    """Locked cells that have lost mark and id are told by their text, if no other cell has that mark."""
    there = {cell.role for cell in cells}
    for cell in cells:
        role = ours.by_text.get(_VARIANT.sub("variant = 0", cell.text))
        if role and not cell.role and role not in there:
            cell.role = role
            there.add(role)
    return cells


def _parted(cells, ours, notes):
    """What was written into a locked cell besides what stands there becomes a cell of its own, above or below it."""
    parted = []
    for cell in cells:
        if cell.role not in ours.names and cell.role:
            above, below = _around(cell.text, ours.text[cell.role])
            if above or below:
                notes.append(f"Something was written into the locked cell {cell.role!r}. It ran as a cell of its own.")
                parted += [_Cell(cell.kind, above)] if above else []
                parted += [_Cell(cell.kind, ours.text[cell.role], cell.role)]
                parted += [_Cell(cell.kind, below)] if below else []
                continue
        parted.append(cell)
    return parted


def _around(text, ours):
    """What stands above and below our lines, if all of them are there; else nothing."""
    lines = text.strip("\n").split("\n")
    compared = [_VARIANT.sub("variant = 0", line).rstrip() for line in lines]
    wanted = [line.rstrip() for line in ours.strip("\n").split("\n")]
    for at in range(len(compared) - len(wanted) + 1):
        if compared[at:at + len(wanted)] == wanted:
            return "\n".join(lines[:at]).strip("\n"), "\n".join(lines[at + len(wanted):]).strip("\n")
    return "", ""


# --- answers ---


def _untouched(cell, ours):
    """As it was handed out, or empty."""
    return not cell.text.strip() or cell.text.strip() == ours.text[cell.role].strip()


def _answers(cell, role, ours):
    """Whether something was written here for an answer."""
    return cell.role == role and not _untouched(cell, ours) or role in cell.besides


def _continues(text):
    """Whether a text begins within a block, which only makes sense below the cell that it was cut from."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[:1] in (" ", "\t")


def _defined(text):
    """What a text defines at its top level, by the beginnings of its lines. It is not parsed: it may be anything."""
    return [found[1] or found[2] for found in _DEFINITION.finditer(text)]


def _joined_again(cells, ours, notes):
    """Parts of an answer that was split within a block put together: neither runs without the other."""
    joined = []
    for cell in cells:
        above = next((each for each in reversed(joined)  # not an empty copy that stands between
                      if not (cell.role and each.role == cell.role in ours.names and _untouched(each, ours))), None)
        if above and above.kind == cell.kind == "code" and _continues(cell.text) and (
                above.role in ours.names and cell.role in (above.role, "")
                or not above.role and cell.role in ours.names and ours.names[cell.role] & set(_defined(above.text))):
            above.text, above.role = f"{above.text}\n{cell.text}", above.role or cell.role
            notes.append(f"The answer cell {above.role!r} was split within a block. Its parts were put together again.")
        elif cell.text.strip() or not above or cell.role != above.role:  # nothing is left out but empty parts
            joined.append(cell)
    return joined


def _found_elsewhere(cells, ours, notes):
    """An answer may stand in a cell without its mark: one that defines it.

    That is looked for if its own cell is missing or has no answer, in the student's own cells, in locked ones, and in
    copies of another answer's cell in which something else was written; else in another answer's cell, below or above
    what was written for that. Then what is left in its own cell, which would take the answer's place, does not run.
    """
    unmarked = []
    for role, names in ours.names.items():
        pieces = [cell for cell in cells if cell.role == role]
        if not names or not all(_untouched(cell, ours) for cell in pieces):
            continue
        there = [cell for cell in cells if cell.kind == "code" and names <= set(_defined(cell.text))
                 and cell not in pieces]
        found = [cell for cell in there if not (cell.role and _is_itself(cell, ours))]
        for cell in found:
            cell.role = role
        if not found and there:
            for cell in there:
                cell.besides.append(role)
            for cell in pieces:
                cell.text = ""
            notes.append(f"The answer {role!r} was found in the cell {there[-1].role!r}.")
        elif found and pieces:
            notes.append(f"The answer {role!r} was found in another cell, since its own has none.")
        elif found:
            unmarked.append(role)
    if unmarked:
        notes.append(f"nbgrader's marks are missing; these answers were recognised by what their cells define: "
                     f"{', '.join(unmarked)}.")
    return cells


def _is_itself(cell, ours):
    """Whether a cell with a mark is what its mark says: one that defines a name of its own. Ours define no answer."""
    return cell.role in ours.names and bool(ours.names[cell.role] & set(_defined(cell.text)))


def _with_answers(cells, ours, notes):
    """Of answer cells that are there more than once, those with an answer."""
    for role in ours.names:
        pieces = [cell for cell in cells if cell.role == role]
        if len(pieces) < 2:
            continue
        worked = [cell for cell in pieces if not _untouched(cell, ours)]
        kept = worked or pieces[:1]
        cells = [cell for cell in cells if cell.role != role or cell in kept]
        said = f"The answer cell {role!r} is there {len(pieces)} times."
        if not worked:
            said += " None of them has an answer."
        elif len(worked) < len(pieces):
            said += f" Without an answer: {len(pieces) - len(worked)}, left out."
        if len(worked) > 1:
            said += (f" With an answer: {len(worked)}. They ran one after the other, where they stand, so the lower "
                     "one has the last word.")
        notes.append(said)
    return cells


# --- locked cells ---


def _with_locked(cells, ours, notes):
    """Every locked cell once, as it was handed out."""
    for role in filter(ours.locked, ours.order):
        found = [cell for cell in cells if cell.role == role]
        if not found:
            notes.append(f"The locked cell {role!r} was removed. It was put back before grading.")
            cells.insert(_place_for(role, cells, ours), _Cell(ours.cells[role]["cell_type"], "", role))
            continue
        kept = found[-1] if ours.graded(role) else found[0]
        _note_change(kept, role, cells, ours, notes)
        if len(found) > 1:
            if ours.graded(role):  # a second check would ask twice
                cells = [cell for cell in cells if cell is kept or cell.role != role]
                notes.append(f"The check {role!r} is there {len(found)} times. It ran once, where it stands last.")
            for cell in found:
                if cell is not kept:
                    cell.role = ""
    return cells


def _note_change(cell, role, cells, ours, notes):
    """A note, if a locked cell was changed. What was imported in it is kept, since many students import there."""
    if _VARIANT.sub("variant = 0", cell.text).rstrip() == ours.text[role].rstrip():
        return
    said = f"The locked cell {role!r} was changed. It was put back before grading."
    lines = ours.text[role].split("\n")
    imports = [line for line in cell.text.split("\n") if _IMPORT.match(line) and line not in lines]
    if imports and not ours.graded(role):
        cells.insert(cells.index(cell) + 1, _Cell("code", "\n".join(imports)))
        said += f" What it imported was kept: {'; '.join(imports)[:200]}."
    notes.append(said)


def _place_for(role, cells, ours):
    """Where a missing locked cell goes: below the earlier cells of ours; a check below the cells that follow, too."""
    before = set(ours.order[:ours.place(role)])
    place = max((i + 1 for i, cell in enumerate(cells) if cell.role in before), default=0)
    if ours.graded(role):
        while place < len(cells) and not cells[place].role:
            place += 1
    return place


def _given_above_answers(cells, ours, notes):
    """Locked cells that answers build on, as what was imported for them, move above the first of these answers."""
    for role in filter(ours.locked, ours.order):
        later = [each for each in ours.names if ours.place(each) > ours.place(role)]
        first = next((i for i, cell in enumerate(cells) if any(_answers(cell, each, ours) for each in later)), None)
        at = next((i for i, cell in enumerate(cells) if cell.role == role), None)
        if not ours.graded(role) and None not in (first, at) and first < at:
            cells.insert(first, cells.pop(at))
            notes.append(f"The locked cell {role!r} stands below an answer that follows it; it ran above.")
    return cells


def _checks_below_answers(cells, ours, notes):
    """Locked cells that need an answer move below it, if all that was written for it stands below them."""
    for role in ours.names:
        worked = [i for i, cell in enumerate(cells) if _answers(cell, role, ours)]
        if not worked:
            continue
        need = set(filter(ours.locked, ours.order[ours.place(role):]))
        moved = [cell for cell in cells[:worked[0]] if cell.role in need]
        if moved:
            end = cells[worked[-1]]
            cells = [cell for cell in cells if cell not in moved]
            place = cells.index(end) + 1
            cells[place:place] = sorted(moved, key=lambda cell: ours.place(cell.role))
            notes.append(f"The answer {role!r} stands below its check; the check ran below it.")
    return cells


# --- the notebook ---


def _written(cells, ours):
    """As nbgrader takes it: locked cells as they were handed out, of an answer's cells the last one with its mark."""
    last = {cell.role: cell for cell in cells if cell.role}
    written, room = [], _ALL_TEXT
    for number, cell in enumerate(cells, start=1):
        if cell.role and (ours.locked(cell.role) or last[cell.role] is cell):
            made = json.loads(json.dumps(ours.cells[cell.role]))
            if not ours.locked(cell.role):
                made["source"] = cell.text
        else:
            made = {"cell_type": cell.kind, "id": f"own-{number}", "metadata": {}, "source": cell.text}
            if cell.kind == "code":
                made |= {"execution_count": None, "outputs": []}
            else:
                made["source"] = _shortened(cell.text, min(_TEXT, room))
                room = max(0, room - len(cell.text))
        written.append(made)
    return {**{name: value for name, value in ours.notebook.items() if name != "cells"}, "cells": written}


def _shortened(text, most):
    text = _PICTURE.sub("", text)
    return text if len(text) <= most else f"{text[:most]}\n\n... and {len(text) - most} characters more"
