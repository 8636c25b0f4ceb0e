"""Read Food-101 and Clothing1M, trees of photographs whose training labels are noisy as published.

Food-101 (L. Bossard et al., ECCV 2014): `images/<class>/<id>.jpg`, with lists of classes and of "class/id" per split
in `meta/`. A tree with fewer classes is a subset; its labels count the classes in its `meta/classes.txt`.

Clothing1M (T. Xiao et al., CVPR 2015): key lists name the images of each split ("images/7/…jpg", one per line), and
two files of lines "key label" give noisy and clean labels.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tnlpad.data.catalogue import CATALOGUE
from tnlpad.data.files import byte_lines, read_lines, readable
from tnlpad.data.paths import PathList
from tnlpad.data.storage import find_storage, stored
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles, Labels

FOOD101_CLASS_LIST = "meta/classes.txt"
FOOD101_SPLITS = ("train", "test")
IMAGE_SUFFIX = ".jpg"
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}


def read_food101(folder: Path, split: str, resize: int | None = None) -> ImageFiles:
    """Return the images of a split; raise DataError unless all lists and folders agree with each other.

    Images are also found in a folder of shards, or prepared for this `resize`; see `storage`.
    """
    classes = read_classes(folder)
    entries = {each: _entries(folder / "meta" / f"{each}.txt", classes) for each in FOOD101_SPLITS}
    shared = set(entries["train"]).intersection(entries["test"])
    if shared:
        raise DataError(
            f"{folder / 'meta'}: {min(shared)!r} is in train.txt and in test.txt{_and_more(len(shared), 'image')}. An "
            "image belongs to one split: restore the published lists."
        )
    storage = find_storage(folder, resize)
    if storage is None:
        _require_files(folder / "images", classes, entries["train"] + entries["test"])
    label_of = {name: label for label, name in enumerate(classes)}
    chosen = entries[split]
    names = [f"images/{entry}{IMAGE_SUFFIX}".encode() for entry in chosen]
    return ImageFiles(
        paths=PathList(names, prefix=_below(folder)),
        labels=np.array([label_of[entry.split("/")[0]] for entry in chosen], dtype=np.int64),
        class_names=tuple(classes),
        store=None if storage is None else stored(storage, names),
    )


def read_classes(folder: Path) -> list[str]:
    """Return the classes of this tree, in the order of their labels."""
    path = folder / FOOD101_CLASS_LIST
    classes = read_lines(path)
    if not classes:
        raise DataError(f"{path} is empty: it must list the classes, one per line.")
    _require_unique(classes, path)
    for name in classes:
        _require_file_name(name, name, path)
    return classes


def _entries(path: Path, classes: Sequence[str]) -> list[str]:
    entries = read_lines(path)
    _require_unique(entries, path)
    known = set(classes)
    for entry in entries:
        class_name, _, identifier = entry.partition("/")
        if class_name not in known:
            raise DataError(
                f"{path}: {entry!r:.120} is of a class that {FOOD101_CLASS_LIST} does not list. Restore the published "
                "lists, or leave out the same classes in both."
            )
        _require_file_name(identifier, entry, path)
    return entries


def _require_unique(entries: Sequence[str] | Sequence[bytes], path: Path) -> None:
    if len(set(entries)) == len(entries):
        return
    entry, count = Counter[str | bytes](entries).most_common(1)[0]
    name = entry if isinstance(entry, str) else entry.decode()
    raise DataError(f"{path}: {name!r:.120} is listed {count} times. Remove all but one of the lines.")


def _require_file_name(name: str, entry: str, path: Path) -> None:
    """Raise DataError if a name from a list leads out of the image folder."""
    if not name or name in (".", "..") or any(character in name for character in "/\\\0:"):
        raise DataError(f"{path}: {entry!r:.120} is not the name of an image: lines are `class/id`, without extension.")


def _require_files(images: Path, classes: Sequence[str], entries: Sequence[str]) -> None:
    missing_folders = [name for name in classes if not os.path.isdir(images / name)]
    if missing_folders:
        raise DataError(
            f"{images / missing_folders[0]} is missing, and {FOOD101_CLASS_LIST} lists its class"
            f"{_and_more(len(missing_folders), 'class folder')}. Get the folder, or remove the class from "
            f"{FOOD101_CLASS_LIST}, train.txt and test.txt."
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
    """Return the ids of a class; raise DataError for two files that differ in their extension only."""
    files: dict[str, str] = {}
    stems = set()
    with readable(folder), os.scandir(folder) as found:
        for each in found:
            stem, suffix = os.path.splitext(each.name)
            if suffix.lower() not in IMAGE_SUFFIXES:
                continue
            if stem in files:
                raise DataError(f"{folder}: {files[stem]} and {each.name} have the same id. Remove one of them.")
            files[stem] = each.name
            if suffix == IMAGE_SUFFIX:
                stems.add(stem)
    return stems


def _and_more(count: int, noun: str) -> str:
    return f" (and {count - 1:,} more {noun}{'s' if count > 2 else ''})" if count > 1 else ""


CLOTHING1M_CLASS_LIST = "category_names_eng.txt"
UNLABELLED = -1
# Split: key list, label file, published number of images.
CLOTHING1M_SPLITS = {
    "train": ("noisy_train_key_list.txt", "noisy_label_kv.txt", 1_000_000),
    "clean_train": ("clean_train_key_list.txt", "clean_label_kv.txt", 47_570),
    "validation": ("clean_val_key_list.txt", "clean_label_kv.txt", 14_313),
    "test": ("clean_test_key_list.txt", "clean_label_kv.txt", 10_526),
}


def read_clothing1m(folder: Path, split: str, resize: int | None = None) -> ImageFiles:
    """Return a split: `train` with noisy labels; `clean_train`, `validation` and `test` with labels given by people.

    The files need not exist, since checking a million paths is slow; `tnlpad data check clothing1m` does that. Images
    are also found in a folder of shards, or prepared for this `resize`; see `storage`.
    """
    keys_file, labels_file, _ = CLOTHING1M_SPLITS[split]
    class_names = _class_names(folder / CLOTHING1M_CLASS_LIST)
    keys = _keys(folder / keys_file)
    labels = _labels(folder / labels_file, keys, len(class_names))
    unlabelled = np.flatnonzero(labels == UNLABELLED)
    if len(unlabelled):
        key = keys[unlabelled[0]].decode()
        raise DataError(
            f"{folder / labels_file} has no label for {key!r:.120} and {len(unlabelled) - 1:,} more of the "
            f"images in {keys_file}. Restore both files from the archive of annotations."
        )
    storage = find_storage(folder, resize)
    return ImageFiles(
        paths=PathList(keys, prefix=_below(folder)),
        labels=labels,
        class_names=class_names,
        store=None if storage is None else stored(storage, keys),
    )


def clothing1m_splits(folder: Path) -> list[str]:
    """Return the splits whose list of images is there."""
    return [split for split, (keys_file, _, _) in CLOTHING1M_SPLITS.items() if os.path.isfile(folder / keys_file)]


def list_files(folder: Path) -> list[Path]:
    """Return the files in the folder of a dataset that list its images, labels and classes."""
    names = {name for keys, labels, _ in CLOTHING1M_SPLITS.values() for name in (keys, labels)}
    names |= {CLOTHING1M_CLASS_LIST, FOOD101_CLASS_LIST, *(f"meta/{split}.txt" for split in FOOD101_SPLITS)}
    return [folder / name for name in sorted(names) if os.path.isfile(folder / name)]


def _below(folder: Path) -> str:
    return os.path.join(folder, "")


def _class_names(path: Path) -> tuple[str, ...]:
    """Return the names on disk, or the published ones if the list is missing."""
    published = CATALOGUE["clothing1m"].class_names
    if not os.path.isfile(path):
        return published
    names = read_lines(path)
    if len(names) != len(published):
        raise DataError(f"{path} lists {len(names)} classes: Clothing1M has {len(published)}.")
    return tuple(names)


def _keys(path: Path) -> list[bytes]:
    keys = list(byte_lines(path))
    _require_unique(keys, path)
    for key in keys:
        first, *others = key.split(b"/")
        # A key must not lead out of the image folder.
        if first != b"images" or not others or not others[-1] or b".." in others or b"\\" in key or b"\0" in key:
            raise DataError(f"{path}: {key.decode()!r:.120} is not the key of an image: keys are like `images/0/…jpg`.")
    return keys


def _labels(path: Path, keys: Sequence[bytes], num_classes: int) -> Labels:
    """Return the label of each key, or UNLABELLED; raise DataError if any line of the file is not right."""
    place = {key: number for number, key in enumerate(keys)}
    known = {str(label).encode(): label for label in range(num_classes)}
    labels = [UNLABELLED] * len(keys)  # a list is faster one by one than an array
    for line in byte_lines(path):
        key, _, text = line.rpartition(b" ")
        label = known[text] if key and text in known else _unusual_label(path, key, text, num_classes)
        row = place.get(key)
        if row is None:
            continue
        if labels[row] not in (UNLABELLED, label):
            raise DataError(
                f"{path}: {key.decode()!r:.120} has two labels, {labels[row]} and {label}. Remove one of the lines."
            )
        labels[row] = label
    return np.array(labels, dtype=np.int64)


def _unusual_label(path: Path, key: bytes, text: bytes, num_classes: int) -> int:
    """Read a label such as `007`, or raise DataError if it is none."""
    if not key or not re.fullmatch(rb"-?[0-9]{1,9}", text):
        line = f"{key.decode()} {text.decode()}".strip()
        raise DataError(f"{path}: {line!r:.120} is not a line `key label`.")
    label = int(text)
    if not 0 <= label < num_classes:
        raise DataError(
            f"{path}: label {label} of {key.decode()!r:.120} is out of range; with {num_classes} classes, labels are "
            f"0 to {num_classes - 1}."
        )
    return label
