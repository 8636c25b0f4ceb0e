"""Food-101: `images/<class>/<id>.jpg`, and lists of classes and of "class/id" per split in `meta/`.

Paper: L. Bossard, M. Guillaumin, L. Van Gool, "Food-101: Mining Discriminative Components with Random Forests", ECCV
2014. The training images were left uncleaned on purpose: their wrong labels are real ones. A tree with fewer classes is
read as what it is, with labels counted within the classes that its `meta/classes.txt` lists.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tnlpad.data.errors import DataError
from tnlpad.data.files import read_lines, readable
from tnlpad.types import ImageFiles

CLASS_LIST = "meta/classes.txt"
SPLITS = ("train", "test")
IMAGE_SUFFIX = ".jpg"
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}


def read_food101(folder: Path, split: str) -> ImageFiles:
    """The images of a split that the lists name. All lists and folders must agree with each other."""
    classes = read_classes(folder)
    entries = {each: _entries(folder / "meta" / f"{each}.txt", classes) for each in SPLITS}
    shared = set(entries["train"]).intersection(entries["test"])
    if shared:
        raise DataError(
            f"{folder / 'meta'}: {min(shared)!r} is in train.txt and in test.txt, and so are {len(shared) - 1:,} "
            "others; an image belongs to one split. Restore the published lists."
        )
    _require_files(folder / "images", classes, entries["train"] + entries["test"])
    label_of = {name: label for label, name in enumerate(classes)}
    chosen = entries[split]
    return ImageFiles(
        paths=tuple(str(folder / "images" / f"{entry}{IMAGE_SUFFIX}") for entry in chosen),
        labels=np.array([label_of[entry.split("/")[0]] for entry in chosen], dtype=np.int64),
        class_names=tuple(classes),
    )


def read_classes(folder: Path) -> list[str]:
    """The classes of this tree, in the order of their labels."""
    path = folder / CLASS_LIST
    classes = read_lines(path)
    if not classes:
        raise DataError(f"{path} is empty: it must list the classes, one per line.")
    _require_single(classes, path)
    for name in classes:
        _require_file_name(name, name, path)
    return classes


def _entries(path: Path, classes: Sequence[str]) -> list[str]:
    entries = read_lines(path)
    _require_single(entries, path)
    known = set(classes)
    for entry in entries:
        class_name, _, identifier = entry.partition("/")
        if class_name not in known:
            raise DataError(
                f"{path}: {entry!r:.120} is of a class that {CLASS_LIST} does not list. Restore the published lists, "
                "or leave out the same classes in both."
            )
        _require_file_name(identifier, entry, path)
    return entries


def _require_single(entries: Iterable[str], path: Path) -> None:
    entry, count = max(Counter(entries).items(), key=lambda item: item[1], default=("", 0))
    if count > 1:
        raise DataError(
            f"{path}: {entry!r:.120} is listed {count} times; an id stands for one image. Remove all but one."
        )


def _require_file_name(name: str, entry: str, path: Path) -> None:
    """A name from a list must not lead out of the folder of images."""
    if not name or name in (".", "..") or any(character in name for character in "/\\\0:"):
        raise DataError(f"{path}: {entry!r:.120} is not the name of an image: lines are `class/id`, without extension.")


def _require_files(images: Path, classes: Sequence[str], entries: Sequence[str]) -> None:
    missing_folders = [name for name in classes if not os.path.isdir(images / name)]
    if missing_folders:
        raise DataError(
            f"{images / missing_folders[0]} is missing, the folder of a class that {CLASS_LIST} lists"
            f"{_and_more(len(missing_folders), 'class folder')}. Get the folder, or remove the class from "
            f"{CLASS_LIST}, train.txt and test.txt to work with the others."
        )
    found = {f"{name}/{stem}" for name in classes for stem in _image_stems(images / name)}
    missing = [entry for entry in entries if entry not in found]
    if missing:
        raise DataError(
            f"{images / (missing[0] + IMAGE_SUFFIX)} is missing, and the lists name it"
            f"{_and_more(len(missing), 'image')}. Get the images again, or remove these lines from train.txt and "
            "test.txt."
        )


def _image_stems(folder: Path) -> set[str]:
    """The ids of a class; two files that differ in their extension only are two files with one id."""
    files: dict[str, str] = {}
    stems = set()
    with readable(folder), os.scandir(folder) as found:
        for each in found:
            stem, suffix = os.path.splitext(each.name)
            if suffix.lower() not in IMAGE_SUFFIXES:
                continue
            if stem in files:
                raise DataError(
                    f"{folder}: {files[stem]} and {each.name} have one id. Remove the one that is not of the dataset."
                )
            files[stem] = each.name
            if suffix == IMAGE_SUFFIX:
                stems.add(stem)
    return stems


def _and_more(count: int, noun: str) -> str:
    return f" (and {count - 1:,} more {noun}{'s' if count > 2 else ''})" if count > 1 else ""
