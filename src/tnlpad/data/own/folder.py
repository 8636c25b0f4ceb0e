"""Files that are images by their names, lie where they should, and whose names can be written down.

A folder with a folder of images for each class, below `train`, `val` and `test` folders or directly.

A class is the first folder's name; images may lie any deeper. Links are followed within the folder and not out of it:
what a link elsewhere shows is not part of what the owner gave.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tnlpad.data.own.dataset import PARTS, Listing, Part, Problem
from tnlpad.errors import DataError

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".jp2"
}  # fmt: skip


def is_image_name(name: str) -> bool:
    """Whether the name ends as those of images do."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def reason_not_below(path: str, folder: str) -> str | None:
    """Why a file is not one of this folder, links followed; None if it is. `folder` must be resolved itself."""
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError) as error:
        return f"cannot be looked up: {error}"
    if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
        return None
    link = "is a link that leads" if os.path.islink(path) else "lies"
    return f"{link} out of the folder {folder}"


def as_text(name: str) -> str | None:
    """A file's name if it is text that can be written down; names are bytes to the system, and not always UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return name


TABLES = {".csv", ".tsv", ".parquet", ".npz"}
LINKED_FOLDER = "is a link to a folder, and those are not followed"
MOST_SHOWN = 5
NOT_NAMED = "the name is not text in UTF-8: rename the file"


def read_unlabelled_folder(folder: Path) -> Listing:
    """Every image below a folder, in the order of their names; what their folders are called says nothing."""
    found = _Found(os.path.realpath(folder))
    found.add_class(folder, "", "train", folder)
    if not found.ids:
        raise DataError(" ".join([f"{folder} holds no images that can be used.", *found.notes()]))
    return Listing(
        ids=found.ids,
        labels=[None] * len(found.ids),
        files=found.files,
        problems=tuple(found.problems),
        notes=found.notes(),
    )


def read_folder(folder: Path) -> Listing:
    """Every image below the class folders, in the order of their names."""
    parts = _part_folders(folder)
    found = _Found(os.path.realpath(folder))
    places: list[tuple[Part, Path]] = [("train", folder)] if parts is None else parts
    for part, place in places:
        for name in _folders(place):
            found.add_class(place, name, part, folder)
        found.loose += sum(is_image_name(name) for name in os.listdir(place))
    if not found.ids:
        raise DataError(_nothing_found(folder, found))
    classes = set(found.labels)
    if len(classes) == 1 and parts is None:
        _require_classes(folder, found.labels[0])
    return Listing(
        ids=found.ids,
        labels=found.labels,
        parts=found.parts if parts is not None else None,
        files=found.files,
        problems=tuple(found.problems),
        notes=(
            *found.notes(),
            *(_note_on_classes(folder, classes) if parts is None else ()),
            *_note_on_tables(folder),
        ),
    )


class _Found:
    """What has been found so far."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.parts: list[Part] = []
        self.files: list[str] = []
        self.problems: list[Problem] = []
        self.others: Counter[str] = Counter()
        self.loose = 0  # images in no folder of a class
        self.empty: list[str] = []  # folders of classes without images

    def add_class(self, place: Path, name: str, part: Part, folder: Path) -> None:
        top = os.path.join(place, name)
        if reason := reason_not_below(top, self.root):
            self.problems.append(Problem(id=_shown(os.path.relpath(top, folder)), reason=reason))
            return
        before = len(self.ids) + len(self.problems)
        for path in _files(top):
            if os.path.islink(path) and os.path.isdir(path):
                self.problems.append(Problem(id=_shown(os.path.relpath(path, folder)), reason=LINKED_FOLDER))
                continue
            if not is_image_name(path):
                self.others[os.path.splitext(path)[1].lower() or "no suffix"] += 1
                continue
            self._add(path, Path(os.path.relpath(path, folder)).as_posix(), name, part)
        if before == len(self.ids) + len(self.problems):
            self.empty.append(os.path.relpath(top, folder))

    def _add(self, path: str, sample: str, label: str, part: Part) -> None:
        reason = NOT_NAMED if as_text(sample) is None else reason_not_below(path, self.root)
        if reason:
            self.problems.append(Problem(id=_shown(sample), reason=reason))
            return
        self.ids.append(sample)
        self.labels.append(label)
        self.parts.append(part)
        self.files.append(path)

    def notes(self) -> tuple[str, ...]:
        notes = []
        if self.others:
            kinds = ", ".join(f"{_shown(suffix)} {count:,}" for suffix, count in self.others.most_common(5))
            notes.append(f"{self.others.total():,} files are no images by their names and are ignored ({kinds}).")
        if self.loose:
            notes.append(f"{self.loose:,} images lie beside the folders of the classes and are ignored.")
        if self.empty and self.ids:
            notes.append(f"folders without images are no classes: {_some(set(self.empty))}.")
        return tuple(notes)


def _part_folders(folder: Path) -> list[tuple[Part, Path]] | None:
    """Folders of parts, if there is one for training and no other folder has images."""
    names = _folders(folder)
    parts = [(PARTS[name.lower()], folder / name) for name in names if name.lower() in PARTS]
    if "train" not in {part for part, _ in parts}:
        return None
    others = (folder / name for name in names if name.lower() not in PARTS)
    return None if any(is_image_name(path) for other in others for path in _files(str(other))) else parts


def _note_on_classes(folder: Path, classes: set[str]) -> tuple[str, ...]:
    """Parts that became classes are hardly what was meant."""
    parts = sorted(name for name in classes if name.lower() in PARTS)
    if "train" in {PARTS[name.lower()] for name in parts}:
        other = min(classes - set(parts), default="")
        return (
            f"{', '.join(parts)} are taken for classes, since {_shown(other)[:80]!r} lies beside them and has images "
            "as well: move it elsewhere if they are parts of the data.",
        )
    if len(classes) == 1 or any(is_image_name(name) for each in classes for name in os.listdir(folder / each)):
        return ()
    shared = set.intersection(*(set(_folders(folder / name)) for name in classes))
    if len(shared) < 2:
        return ()
    return (
        f"{_some(classes)} are taken for classes, and the folders {_some(shared)} are in each of them: if those are "
        "the classes, call the folders above them train, validation and test.",
    )


def _note_on_tables(folder: Path) -> Iterator[str]:
    """A table of paths and labels often lies beside the folders that its images are in."""
    if tables := _tables(folder, "*"):
        yield f"the folders are the classes: if {_shown(str(tables[0]))} has them instead, name that."


def _some(names: set[str]) -> str:
    shown = [_shown(name)[:80] for name in sorted(names)[:MOST_SHOWN]]
    return ", ".join(shown) + (", …" if len(names) > MOST_SHOWN else "")


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            # A link that leads to itself is no folder, where DirEntry.is_dir() raises.
            return sorted(each.name for each in entries if os.path.isdir(each) and not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be looked into: {error.strerror or error}.") from error


def _files(top: str) -> Iterator[str]:
    """Every file below, in the order of names; hidden ones are the system's and not the owner's."""
    for where, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        # A linked folder is not walked into: it may lead out of here, or round in circles.
        linked = [name for name in folders if os.path.islink(os.path.join(where, name))]
        yield from (os.path.join(where, name) for name in sorted([*names, *linked]) if not name.startswith("."))


def _nothing_found(folder: Path, found: _Found) -> str:
    if found.problems:
        first = found.problems[0]
        return (
            f"{folder}: none of {len(found.problems):,} images can be used; {first.id} {first.reason}. Copy the files "
            "into the folder."
        )
    if tables := _tables(folder, "*", "*/*"):
        return f"{folder} holds no images in a folder for each class. Did you mean {_meant(folder, tables)}?"
    if found.loose:
        return f"{folder} holds images without a folder for each class. Make one per class, or list them in a CSV file."
    return " ".join([f"{folder} holds no folder with images: there must be one for each class.", *found.notes()])


def _tables(folder: Path, *patterns: str) -> list[Path]:
    files = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return [path for path in files if path.suffix.lower() in TABLES and not path.name.startswith(".")]


def _meant(folder: Path, tables: list[Path]) -> str:
    """The table; or where Parquet files lie together, as the Hub has them, their folder."""
    first = tables[0]
    return _shown(str(first.parent if first.suffix.lower() == ".parquet" and first.parent != folder else first))


def _require_classes(folder: Path, label: str) -> None:
    """The usual mistake is to name a folder above."""
    inner = folder / label
    while len(below := _folders(inner)) == 1:
        inner = inner / below[0]
    if below:
        raise DataError(f"{folder} has one class, {label!r}. Did you mean {inner}, which holds several folders?")
    if tables := _tables(folder, "*"):
        raise DataError(f"{folder} has one class, {label!r}, and a table. Did you mean {_shown(str(tables[0]))}?")


def _shown(name: str) -> str:
    return name.encode("utf-8", errors="replace").decode("utf-8")
