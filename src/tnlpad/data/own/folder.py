"""Read a folder with one folder of images per class, directly or below `train`, `val` and `test` folders.

The class is the name of the first folder; images may be in folders below it. Links are followed within the folder but
not out of it, since what they lead to is not part of the given data.
"""

import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tnlpad.data.own.dataset import PARTS, Listing, Part, Problem
from tnlpad.data.paths import PathList
from tnlpad.data.pixels import IMAGE_SUFFIXES
from tnlpad.errors import DataError

TABLE_SUFFIXES = {".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx", ".parquet", ".npz"}
MAX_NAMES_SHOWN = 5
NOT_UTF8 = "has a name that is not UTF-8"


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def reason_not_below(path: str, folder: str) -> str | None:
    """Return why a file is not below a folder, links followed; None if it is. `folder` must be resolved itself."""
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError) as error:
        return f"cannot be resolved: {error}"
    if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
        return None
    return f"{'is a link that leads' if os.path.islink(path) else 'lies'} out of the folder {folder}"


class Boundary:
    """Says why files are not below a folder, as `reason_not_below` does, and resolves each folder of files once."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = os.path.realpath(folder)
        self._inside: set[str] = set()

    def reason(self, path: str) -> str | None:
        where, name = os.path.split(path)
        if where in self._inside and name not in ("", os.curdir, os.pardir) and not os.path.islink(path):
            return None
        reason = reason_not_below(path, self.folder)
        if reason is None and reason_not_below(where, self.folder) is None:
            self._inside.add(where)
        return reason


def read_folder(folder: Path) -> Listing:
    """List every image below the class folders, in the order of their names."""
    parts = _part_folders(folder)
    found = _Found(folder)
    places: list[tuple[Part, Path]] = [("train", folder)] if parts is None else parts
    for part, place in places:
        for name in _folders(place):
            found.add_class(place, name, part)
        found.loose += sum(is_image_name(name) for name in os.listdir(place))
    if not found.ids:
        raise DataError(_nothing_found(folder, found))
    classes = set(found.labels)
    notes = found.notes()
    if parts is None:
        if len(classes) == 1:
            _require_several_classes(folder, found.labels[0])
        notes += _class_notes(folder, classes)
    if tables := _tables(folder, "*"):
        notes.append(f"the folders are the classes: if {_printable(str(tables[0]))} has the labels, name that instead.")
    return found.listing(found.labels, found.parts if parts is not None else None, notes)


def read_unlabelled_folder(folder: Path) -> Listing:
    """List every image below a folder, in the order of their names, without labels."""
    found = _Found(folder)
    found.add_class(folder, "", "train")
    if not found.ids:
        raise DataError(" ".join([f"{folder} holds no images that can be used.", *found.notes()]))
    return found.listing([None] * len(found.ids), None, found.notes())


class _Found:
    """The images found so far below a folder, and what was left out."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, os.path.realpath(folder)
        self.ids: list[bytes] = []  # paths below the folder
        self.labels: list[str] = []
        self.rows = array("q")
        self.images = 0  # found, also those that are left out
        self.parts: list[Part] = []
        self.problems: list[Problem] = []
        self.other_suffixes: Counter[str] = Counter()
        self.loose = 0  # images in no class folder
        self.empty: set[str] = set()  # class folders without images

    def add_class(self, place: Path, name: str, part: Part) -> None:
        top = os.path.join(place, name)
        if reason := reason_not_below(top, self.root):
            self._add_problem(top, reason)
            return
        before = len(self.ids) + len(self.problems)
        for where, names, linked in _walk(top):
            below = Path(os.path.relpath(where, self.folder)).as_posix()
            for file in names:
                sample = file if below == os.curdir else f"{below}/{file}"
                if file in linked and os.path.isdir(path := os.path.join(where, file)):
                    self._add_problem(path, "is a link to a folder, which is not followed")
                elif is_image_name(file):
                    self._add_image(sample, name, part, linked=file in linked)
                else:
                    self.other_suffixes[os.path.splitext(file)[1].lower() or "no suffix"] += 1
        if before == len(self.ids) + len(self.problems):
            self.empty.add(os.path.relpath(top, self.folder))

    def _add_image(self, sample: str, label: str, part: Part, *, linked: bool) -> None:
        self.images += 1
        path, content = os.path.join(self.folder, sample), _utf8(sample)
        if content is None:
            self._add_problem(path, NOT_UTF8)
        elif linked and (reason := reason_not_below(path, self.root)):
            self._add_problem(path, reason)
        else:
            self.ids.append(content)
            self.labels.append(label)
            self.rows.append(self.images - 1)
            self.parts.append(part)

    def _add_problem(self, path: str, reason: str) -> None:
        self.problems.append(Problem(id=_printable(os.path.relpath(path, self.folder)), reason=reason))

    def notes(self) -> list[str]:
        notes = []
        if self.other_suffixes:
            kinds = ", ".join(f"{_printable(suffix)} {count:,}" for suffix, count in self.other_suffixes.most_common(5))
            count = self.other_suffixes.total()
            what = "1 file is not named as an image and is"
            if count > 1:
                what = f"{count:,} files are not named as images and are"
            notes.append(f"{what} ignored ({kinds}).")
        if self.loose:
            what = "1 image is" if self.loose == 1 else f"{self.loose:,} images are"
            notes.append(f"{what} in no class folder and ignored.")
        if self.empty and self.ids:
            notes.append(f"folders without images are not classes: {_some(self.empty)}.")
        return notes

    def listing(self, labels: Sequence[str | None], parts: list[Part] | None, notes: list[str]) -> Listing:
        return Listing(
            ids=PathList(self.ids),
            labels=labels,
            rows=self.rows,
            parts=parts,
            files=PathList(self.ids, prefix=os.path.join(self.folder, "")),
            problems=tuple(self.problems),
            notes=tuple(notes),
        )


def _part_folders(folder: Path) -> list[tuple[Part, Path]] | None:
    """Return the part folders, if there is one for training and no other folder has images."""
    names = _folders(folder)
    parts = [(PARTS[name.lower()], folder / name) for name in names if name.lower() in PARTS]
    if "train" not in {part for part, _ in parts}:
        return None
    others = (walked for name in names if name.lower() not in PARTS for walked in _walk(folder / name))
    return None if any(is_image_name(file) for _, files, _ in others for file in files) else parts


def _class_notes(folder: Path, classes: set[str]) -> list[str]:
    """Remark on classes that are probably parts."""
    parts = sorted(name for name in classes if name.lower() in PARTS)
    if "train" in {PARTS[name.lower()] for name in parts}:
        other = min(classes - set(parts), default="")
        taken = "is taken for a class" if len(parts) == 1 else "are taken for classes"
        return [
            f"{', '.join(parts)} {taken}: the folder {_printable(other)[:80]!r} has images as well. "
            "Move it elsewhere if they are parts of the data."
        ]
    if len(classes) == 1 or any(is_image_name(name) for each in classes for name in os.listdir(folder / each)):
        return []
    shared = set.intersection(*(set(_folders(folder / name)) for name in classes))
    if len(shared) < 2:
        return []
    return [
        f"{_some(classes)} are taken for classes, and each of them has the folders {_some(shared)}: if those are the "
        "classes, rename the folders above them to train, validation and test."
    ]


def _require_several_classes(folder: Path, label: str) -> None:
    """Raise DataError if a folder above or next to the data was probably named by mistake."""
    inner = folder / label
    while len(below := _folders(inner)) == 1:
        inner = inner / below[0]
    if below:
        raise DataError(f"{folder} has one class, {label!r}. Did you mean {inner}, which holds several folders?")
    if tables := _tables(folder, "*"):
        raise DataError(f"{folder} has one class, {label!r}, and a table. Did you mean {_printable(str(tables[0]))}?")


def _nothing_found(folder: Path, found: _Found) -> str:
    if found.problems:
        first = found.problems[0]
        return (
            f"{folder}: none of {len(found.problems):,} images can be used; {first.id} {first.reason}. Copy the files "
            "into the folder."
        )
    if tables := _tables(folder, "*", "*/*"):
        meant = tables[0]
        if meant.suffix.lower() == ".parquet" and meant.parent != folder:  # as the Hugging Face Hub stores them
            meant = meant.parent
        return f"{folder} has no class folders with images. Did you mean {_printable(str(meant))}?"
    if found.loose:
        return f"{folder} holds images, but not in class folders. Make one per class, or list them in a CSV file."
    return " ".join(
        [
            f"{folder} has no class folders with images. Put the images into one folder per class, such as "
            f"{folder / 'cat' / '1.jpg'}, or give a table.",
            *found.notes(),
        ]
    )


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            # os.path.isdir is False for a link to itself, where DirEntry.is_dir raises.
            return sorted(each.name for each in entries if os.path.isdir(each) and not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror or error}.") from error


def _walk(top: Path | str) -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield each folder with the names of its files, in order and without hidden ones, and which of them are links.

    A linked folder counts as a file.
    """
    folders: list[str] = []
    names: list[str] = []
    linked: set[str] = set()
    try:
        with os.scandir(top) as entries:
            for entry in entries:  # the system lists kinds with the names: nothing is read of a file itself
                if not entry.name.startswith("."):
                    (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
                    linked.update([entry.name] if entry.is_symlink() else ())
    except OSError:  # a folder that cannot be read has no images that can
        return
    yield os.fspath(top), sorted(names), linked
    for name in sorted(folders):
        yield from _walk(os.path.join(top, name))


def _tables(folder: Path, *patterns: str) -> list[Path]:
    files = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return [path for path in files if path.suffix.lower() in TABLE_SUFFIXES and not path.name.startswith(".")]


def _some(names: set[str]) -> str:
    shown = [_printable(name)[:80] for name in sorted(names)[:MAX_NAMES_SHOWN]]
    return ", ".join(shown) + (", …" if len(names) > MAX_NAMES_SHOWN else "")


def _utf8(name: str) -> bytes | None:
    """Return the bytes of a name; None if it is not UTF-8, since names are any bytes to the system."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return None


def _printable(name: str) -> str:
    return name.encode("utf-8", errors="replace").decode("utf-8")
