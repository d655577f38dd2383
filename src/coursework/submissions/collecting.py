"""Who handed in what: from a folder or a zip of submissions to the files of each student. It reads no notebook.

Taken are a folder for each student, and what Moodle and Canvas make of all submissions, zipped or unpacked. No link is
ever followed, in folders nor in zips, and nothing but plain files is opened.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .lms import Label, Table, label_of
from .receipts import SUFFIX
from .roster import Roster, alike, named

__all__ = ["File", "Submission", "Unreadable", "attached", "candidates", "collect", "receipt_among"]

_DEEPEST = 6  # folders in folders
_MOST = 500  # files of a student that are looked at
#: What systems and programs leave behind.
_LITTER = re.compile(r"\..*|__MACOSX|Thumbs\.db|desktop\.ini|__pycache__|~.*", re.I)
_NOTEBOOK = re.compile(r"(.+?)\.ipynb(?:\.(?:txt|json))?", re.I | re.S)
#: What browsers, systems and platforms add to the name of a file that is there twice.
_COPY = re.compile(r"(?:copy[ _]of[ _])?(.+?)(?:[ _-]*\(\d{1,3}\)|[ _-]+copy\d{0,3}|-\d{1,3})*", re.I | re.S)


class Unreadable(Exception):
    """A file cannot be read; the message is a sentence for the report. ``ours``: not because of what was handed in."""

    def __init__(self, said, *, ours=False):
        super().__init__(said)
        self.ours = ours


@dataclass(frozen=True)
class File:
    """A file that was handed in.

    Attributes
    ----------
    name : str
        Without what a platform puts in front of it.
    shown : str
        Where it lies, for notes.
    depth : int
        How many folders deep.
    """

    name: str
    shown: str
    depth: int
    _open: object = field(repr=False)

    def read(self, largest: int) -> bytes:
        """Its bytes.

        Raises
        ------
        Unreadable
            If it is no plain file, or larger than this.
        """
        content = self._open(largest + 1)
        if len(content) > largest:
            raise Unreadable(f"{self.shown} has more than {largest / 10**6:g} MB and was not read.", ours=True)
        return content


@dataclass
class Submission:
    """What a student handed in.

    Attributes
    ----------
    student : str
        The name of their folder in the course.
    files : list of File
    labels : list of str
        The names of their folder, or of their files, in the download.
    label : Label or None
        What the first of these says.
    row : list of str or None
        Theirs, in the platform's table.
    notes : list of str
    """

    student: str
    files: list[File] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    label: Label | None = None
    row: list[str] | None = None
    notes: list[str] = field(default_factory=list)


# --- folders and zips ---


@dataclass
class _Folder:
    """A folder, or one in a zip: what lies in it by name, files with a function that reads so many bytes of them."""

    folders: dict[str, _Folder] = field(default_factory=dict)
    files: dict[str, object] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)


def _folder(path, depth=0):
    found = _Folder()
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_symlink():
                found.links.append(entry.name)
                found.files[entry.name] = _refuser(f"{entry.name} is a link, and was not followed.")
            elif entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST and not _LITTER.fullmatch(entry.name):
                    found.folders[entry.name] = _safely(entry.path, depth + 1)
            else:
                found.files[entry.name] = _opener(entry.path)
    return found


def _safely(path, depth):
    try:
        return _folder(path, depth)
    except OSError as error:
        said = f"{os.path.basename(path)} cannot be opened: {error.strerror}."
        return _Folder(files={"unreadable.ipynb": _refuser(said, ours=True)})


def _refuser(said, **options):
    def read(_):
        raise Unreadable(said, **options)
    return read


def _opener(path):
    def read(most):
        name = os.path.basename(path)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Unreadable(f"{name} cannot be opened: {error.strerror}.", ours=True) from None
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unreadable(f"{name} is not a plain file, and was not read.")
            return file.read(most)
    return read


def _zipped(path):
    """A zip as folders. It is never unpacked, so no name in it leads anywhere."""
    archive, root = zipfile.ZipFile(path), _Folder()
    for info in archive.infolist():
        parts = PurePosixPath(_name_in_zip(info).replace("\\", "/")).parts
        if not parts or ".." in parts or parts[0] == "/" or len(parts) > _DEEPEST + 2:
            continue
        folder = root
        for part in parts[:-1]:
            folder = folder.folders.setdefault(part, _Folder())
        mode = info.external_attr >> 16
        if stat.S_ISLNK(mode):
            folder.links.append(parts[-1])
            folder.files[parts[-1]] = _refuser(f"{parts[-1]} is a link, and was not followed.")
        elif info.is_dir():
            folder.folders.setdefault(parts[-1], _Folder())
        else:
            folder.files[parts[-1]] = _opener_in_zip(archive, info, parts[-1])
    return _without_litter(root)


def _name_in_zip(info):
    """Names without the mark of UTF-8 often are UTF-8 all the same."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _opener_in_zip(archive, info, name):
    def read(most):
        try:
            with archive.open(info) as file:
                return file.read(most)
        except Exception as error:  # damaged, encrypted, or packed in a way that is not known
            raise Unreadable(f"{name} cannot be read from the zip: {error}"[:300], ours=True) from None
    return read


def _without_litter(folder):
    kept = {name: each for name, each in folder.folders.items() if not _LITTER.fullmatch(name)}
    folder.folders = {name: _without_litter(each) for name, each in kept.items()}
    return folder


def _files(folder, shown="", depth=0):
    """All files of a folder and of those in it that are nobody's litter. A folder that is named like a file counts."""
    named_so = {name: _refuser(f"{name} is not a plain file, and was not read.") for name in folder.folders
                if PurePosixPath(name).suffix}
    files = [File(name, f"{shown}{name}", depth, read)
             for name, read in {**named_so, **folder.files}.items() if not _LITTER.fullmatch(name)]
    for name, each in folder.folders.items():
        files += _files(each, f"{shown}{name}/", depth + 1)
    return files[:_MOST]


# --- whose they are ---


def collect(place, *, roster: Roster | None = None, table: Table | None = None) -> tuple[list[Submission], list[str]]:
    """The submissions of a folder or a zip, and sentences about what is nobody's.

    Raises
    ------
    ValueError
        If the place is neither, or has no submission.
    """
    place, roster = Path(place), roster or Roster()
    if place.is_dir():
        root = _unwrapped(_folder(place))
    elif zipfile.is_zipfile(place):
        root = _unwrapped(_zipped(place), zipped=True)
    else:
        raise ValueError(f"SUBMISSIONS = {str(place)!r}; expected a folder or a zip")
    problems = [f"{name} was not graded: it is a link, and was not followed" for name in root.links]
    parcels: dict[tuple, Submission] = {}
    for name, folder in root.folders.items():
        if _LITTER.fullmatch(name):
            continue
        label = label_of(name, folder=True)
        _parcel(parcels, label, name).files += _files(folder)
    for name, read in root.files.items():
        label = label_of(name, folder=False)
        if label and name not in root.links:
            _parcel(parcels, label, name).files.append(File(label.file, name, 0, read))
            if label.late:
                _late(_parcel(parcels, label, name))
        elif name not in root.links and _NOTEBOOK.fullmatch(name) and not _LITTER.fullmatch(name):
            problems.append(f"{name} was not graded, since it lies in no student's folder")
    submissions = _with_names(parcels, roster, table, problems)
    if not submissions and not problems:
        raise ValueError(f"SUBMISSIONS = {str(place)!r}; expected a folder for each student, and the notebook in it, "
                         "as in NAME/1_ctc_alpha.ipynb; or all submissions as Moodle or Canvas packs them")
    return submissions, problems


def _unwrapped(root, *, zipped=False):
    """Without the folder around everything that some programs add when they unpack or pack.

    It is one if what lies in it has a platform's names; in a zip also if there are folders and no notebook in it.
    """
    while True:
        inside = [name for name in root.folders if not _LITTER.fullmatch(name)]
        if len(inside) != 1 or label_of(inside[0], folder=True) or _names(root.files):
            return root
        folder = root.folders[inside[0]]
        labelled = any(label_of(name, folder=True) for name in folder.folders) or any(
            label_of(name, folder=False) for name in folder.files)
        if not labelled and not (zipped and folder.folders and not any(map(_NOTEBOOK.fullmatch, folder.files))):
            return root
        root = folder


def _names(files):
    return [name for name in files if not _LITTER.fullmatch(name)]


def _parcel(parcels, label: Label | None, name):
    """What belongs to one label: of Moodle the folders with one number, of Canvas the files with one."""
    key = (label.lms, label.id or label.name) if label else ("folder", name)
    if key not in parcels:
        parcels[key] = Submission("", label=label)
    if name not in parcels[key].labels:
        parcels[key].labels.append(name)
    return parcels[key]


def _late(submission):
    note = "Canvas says that it was handed in late."
    if note not in submission.notes:
        submission.notes.append(note)


def _with_names(parcels, roster, table, problems):
    """Give each submission its student; what is nobody's, or two students', becomes a problem."""
    submissions = []
    for submission in parcels.values():
        label, shown = submission.label, submission.labels[0]
        name = label.name if label else unicodedata.normalize("NFC", shown)
        submission.row = table.row_of(label, name) if table else None
        keys = [name, *([label.id] if label and label.lms == "canvas" else [])]
        if submission.row:
            keys += [table.full_name(submission.row), *table.keys(submission.row)]
        if roster:
            submission.student = roster.find(keys)
            if not submission.student:
                problems.append(f"{shown} was not graded: the roster has nobody who is known as "
                                f"{' or '.join(dict.fromkeys(filter(None, keys)))}, or more than one")
                continue
            if table and not submission.row and not label:
                submission.row = table.row_in(roster, submission.student)
        else:
            submission.student = named(table.full_name(submission.row) if submission.row else name)
            if not submission.student:
                problems.append(f"{shown} was not graded: its name has no letter and no digit")
                continue
        submissions.append(submission)
    return _apart(submissions, roster, problems)


def _apart(submissions, roster, problems):
    """Names that fall together are told apart by their numbers on the platform; folders without one are a problem."""
    by_name: dict[str, list[Submission]] = {}
    for submission in submissions:
        by_name.setdefault(alike(submission.student), []).append(submission)
    for same in by_name.values():
        if len(same) == 1:
            continue
        if not roster and all(each.label and each.label.id for each in same):
            for each in same:
                each.student += f"_{each.label.id}"
            continue
        problems.append(f"{' and '.join(each.labels[0] for each in same)} were not graded: they are of one student, "
                        f"{same[0].student}")
        submissions = [each for each in submissions if each not in same]
    return sorted(submissions, key=lambda each: each.student)


# --- which file it is ---


def candidates(files, assignment: str) -> list[tuple[int, File]]:
    """The notebooks among files that may be the one of an assignment, best first, each with how well its name fits.

    0 is the name itself, 1 that of a copy, another spelling or another folder, 2 any other name.

    Examples
    --------
    >>> [rank for rank, _ in candidates([File(name, name, 0, None) for name in (
    ...     "1_ctc_alpha (1).ipynb", "1_ctc_alpha.ipynb", "mine.ipynb", "notes.txt")], "1_ctc_alpha")]
    [0, 1, 2]
    """
    found: list[tuple[int, File]] = []
    for file in files:
        if match := _NOTEBOOK.fullmatch(file.name):
            stem = _COPY.fullmatch(match[1].strip())[1]
            exact = file.name == f"{assignment}.ipynb" and file.depth == 0
            found.append((0 if exact else 1 if _same(stem, assignment) else 2, file))
    return sorted(found, key=lambda each: (each[0], each[1].depth, each[1].shown))


def receipt_among(files, assignment: str) -> File | None:
    """The receipt of an assignment's notebook, whatever a platform or a browser made of its name; the best of several.

    Examples
    --------
    >>> receipt_among([File(name, name, 0, None) for name in (
    ...     "2_ctc_beta.receipt.json", "1_ctc_alpha.receipt-1.json")], "1_ctc_alpha").name
    '1_ctc_alpha.receipt-1.json'
    """
    exact = f"{assignment}{SUFFIX}"
    found = [file for file in files if _same(_stem(file, "json"), exact.removesuffix(".json"))]
    return min(found, key=lambda file: (file.name != exact, file.depth, file.shown), default=None)


def _stem(file, suffix):
    """The name of a file without its ending, and without what says that it is a copy; empty if it ends otherwise."""
    name, _, ending = file.name.rpartition(".")
    match = _COPY.fullmatch(name) if ending.lower() == suffix else None
    return match[1] if match else ""


def _same(stem, assignment):
    return re.sub(r"[\W_]+", "", stem.casefold()) == re.sub(r"[\W_]+", "", assignment.casefold())


def attached(files, there: Path, wanted: dict[str, int]) -> list[str]:
    """Write the files that may be handed in beside a notebook, by name and largest size; notes on what is not taken."""
    notes = []
    for name, largest in wanted.items():
        stem, suffix = name.rsplit(".", 1)
        found = [file for file in files if _same(_stem(file, suffix), stem)]
        if not found:
            continue
        found.sort(key=lambda file: (file.name != name, file.depth, file.shown))
        try:
            (there / name).write_bytes(found[0].read(largest))
            if found[0].name != name:
                notes.append(f"{found[0].shown} was taken for {name}.")
            notes += [f"{other.shown} was not read, since there is {found[0].shown}." for other in found[1:]]
        except Unreadable as error:
            notes.append(str(error))
    return notes
