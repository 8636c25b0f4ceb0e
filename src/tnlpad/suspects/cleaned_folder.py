"""Write cleaned images as a folder with one folder per class, below those of the parts if the data have parts."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from tnlpad.errors import DataError
from tnlpad.suspects.clean import Cleaned
from tnlpad.suspects.cleaned_rows import NewIds, Source

Files = Literal["link", "copy"]
LONGEST_NAME = 255  # bytes, on all usual file systems


def write_image_folder(folder: Path, source: Source, kept: Sequence[Cleaned], files: Files) -> NewIds:
    """Write the images that are kept into an empty folder, as hard links where possible or as copies.

    An image whose label changed moves to the folder of its class. Where a file of that name is, it gets another one.
    """
    targets = _targets(kept, has_parts=source.parts is not None)
    for sample in kept:
        target = folder / targets[sample.id]
        target.parent.mkdir(parents=True, exist_ok=True)
        _add(os.path.realpath(source.path / sample.id), target, files)
    return targets


def _add(image: str, target: Path, files: Files) -> None:
    if files == "link":
        try:
            os.link(image, target)
            return
        except OSError:  # another file system, or one without links
            pass
    shutil.copy2(image, target)


def _targets(kept: Sequence[Cleaned], *, has_parts: bool) -> dict[str, str]:
    """Return the path of each image in the new folder, by id. Images that keep their label keep their path."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for sample in sorted(kept, key=lambda each: _path(each, each.label, has_parts) != PurePosixPath(each.id)):
        path = _path(sample, sample.label, has_parts)
        number, free = 2, path
        while str(free).casefold() in taken:  # some file systems ignore case
            free, number = _numbered(path, number), number + 1
        taken.add(str(free).casefold())
        found[sample.id] = str(free)
    return found


def _numbered(path: PurePosixPath, number: int) -> PurePosixPath:
    """Return the path with a number behind its stem, which is shortened if the name would be too long."""
    end = f"-{number}{path.suffix}"
    stem = os.fsencode(path.stem)[: LONGEST_NAME - len(os.fsencode(end))].decode(errors="ignore")
    return path.with_name(stem + end)


def _path(sample: Cleaned, label: str, has_parts: bool) -> PurePosixPath:
    """Return the path of an image with its folder of the class replaced."""
    unusable = not label or label.startswith(".") or any(each in label for each in "/\\\0")
    if unusable or len(os.fsencode(label)) > LONGEST_NAME:
        raise DataError(
            f"the label {label[:80]!r} of {sample.id[:80]!r} cannot be the name of a folder. Choose another name for "
            "the class, or write a table of paths with --out FILE.csv."
        )
    folders = PurePosixPath(sample.id).parts
    place = 1 if has_parts else 0
    return PurePosixPath(*folders[:place], label, *folders[place + 1 :])
