"""A folder with a folder of images for each class, below `train`, `val` and `test` folders or directly.

A class is the first folder's name; images may lie any deeper. Links are followed within the folder and not out of it:
what a link elsewhere shows is not part of what the owner gave.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tnlpad.data.errors import DataError
from tnlpad.data.listing import PARTS, Listing, Part, Problem, as_text, reason_not_below

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".jp2"
}  # fmt: skip
LINKED_FOLDER = "is a link to a folder, and those are not followed"
NOT_NAMED = "the name is not text in UTF-8: rename the file"


def read_unlabelled_folder(folder: Path) -> Listing:
    """Every image below a folder, in the order of their names; what their folders are called says nothing."""
    found = _Found(os.path.realpath(folder))
    found.add_class(folder, "", "train", folder)
    if not found.ids:
        raise DataError(f"{folder} holds no images that can be used.")
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
    if not found.ids:
        raise DataError(_nothing_found(folder, found))
    if len(set(found.labels)) == 1:
        _require_classes(folder, found.labels[0])
    return Listing(
        ids=found.ids,
        labels=found.labels,
        parts=found.parts if parts is not None else None,
        files=found.files,
        problems=tuple(found.problems),
        notes=found.notes(),
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

    def add_class(self, place: Path, name: str, part: Part, folder: Path) -> None:
        top = os.path.join(place, name)
        if reason := reason_not_below(top, self.root):
            self.problems.append(Problem(id=_shown(os.path.relpath(top, folder)), reason=reason))
            return
        for path in _files(top):
            if os.path.islink(path) and os.path.isdir(path):
                self.problems.append(Problem(id=_shown(os.path.relpath(path, folder)), reason=LINKED_FOLDER))
                continue
            suffix = os.path.splitext(path)[1].lower()
            if suffix not in IMAGE_SUFFIXES:
                self.others[suffix or "no suffix"] += 1
                continue
            self._add(path, Path(os.path.relpath(path, folder)).as_posix(), name, part)

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
        if not self.others:
            return ()
        kinds = ", ".join(f"{_shown(suffix)} {count:,}" for suffix, count in self.others.most_common(5))
        return (f"{self.others.total():,} files are no images by their names and are ignored ({kinds}).",)


def _part_folders(folder: Path) -> list[tuple[Part, Path]] | None:
    """Folders of parts, if there is one for training and nothing else."""
    names = _folders(folder)
    parts = [(PARTS[name.lower()], folder / name) for name in names if name.lower() in PARTS]
    if len(parts) < len(names) or "train" not in {part for part, _ in parts}:
        return None
    return parts


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
    if any(os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES for name in os.listdir(folder)):
        return f"{folder} holds images without a folder for each class. Make one per class, or list them in a CSV file."
    return f"{folder} holds no folder with images: there must be one for each class."


def _require_classes(folder: Path, label: str) -> None:
    """The usual mistake is to name the folder above."""
    inner = folder / label
    if len(_folders(inner)) > 1:
        raise DataError(f"{folder} has one class, {label!r}. Did you mean {inner}, which holds several folders?")


def _shown(name: str) -> str:
    return name.encode("utf-8", errors="replace").decode("utf-8")
