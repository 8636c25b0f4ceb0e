"""Food-101: `images/<class>/<id>.jpg`, and lists of classes and of "class/id" per split in `meta/`.

Paper: L. Bossard, M. Guillaumin, L. Van Gool, "Food-101: Mining Discriminative Components with Random Forests", ECCV
2014. The training images were left uncleaned on purpose: their wrong labels are real ones. A tree with fewer classes is
read as what it is, with labels counted within the classes that its `meta/classes.txt` lists.

Clothing1M: a million shop photographs whose labels come from the text around them, and some labelled by people.

Paper: T. Xiao et al., "Learning from Massive Noisy Labeled Data for Image Classification", CVPR 2015. Key lists name
the images of each split ("images/7/…jpg", one per line), and two files of lines "key label" give the noisy and the
clean label of an image. Images are not looked for on reading, since asking the disk a million times takes a while;
`tnlpad data check clothing1m` does.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from tnlpad.data.class_names import CLOTHING1M
from tnlpad.data.files import is_file, read_lines, readable
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles

FOOD101_CLASS_LIST = "meta/classes.txt"
FOOD101_SPLITS = ("train", "test")
IMAGE_SUFFIX = ".jpg"
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}


def read_food101(folder: Path, split: str) -> ImageFiles:
    """The images of a split that the lists name. All lists and folders must agree with each other."""
    classes = read_classes(folder)
    entries = {each: _entries(folder / "meta" / f"{each}.txt", classes) for each in FOOD101_SPLITS}
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
    path = folder / FOOD101_CLASS_LIST
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
                f"{path}: {entry!r:.120} is of a class that {FOOD101_CLASS_LIST} does not list. Restore the published "
                "lists, or leave out the same classes in both."
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
            f"{images / missing_folders[0]} is missing, the folder of a class that {FOOD101_CLASS_LIST} lists"
            f"{_and_more(len(missing_folders), 'class folder')}. Get the folder, or remove the class from "
            f"{FOOD101_CLASS_LIST}, train.txt and test.txt to work with the others."
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


CLOTHING1M_CLASS_LIST = "category_names_eng.txt"
# Split: list of keys, file of labels, published number of images.
CLOTHING1M_SPLITS = {
    "train": ("noisy_train_key_list.txt", "noisy_label_kv.txt", 1_000_000),
    "clean_train": ("clean_train_key_list.txt", "clean_label_kv.txt", 47_570),
    "validation": ("clean_val_key_list.txt", "clean_label_kv.txt", 14_313),
    "test": ("clean_test_key_list.txt", "clean_label_kv.txt", 10_526),
}


def read_clothing1m(folder: Path, split: str) -> ImageFiles:
    """A split: `train` with its noisy labels; `clean_train`, `validation` and `test` with those given by people."""
    keys_file, labels_file, _ = CLOTHING1M_SPLITS[split]
    class_names = _class_names(folder / CLOTHING1M_CLASS_LIST)
    keys = _keys(folder / keys_file)
    label_of = _label_of(folder / labels_file, len(class_names))
    unlabelled = [key for key in keys if key not in label_of]
    if unlabelled:
        raise DataError(
            f"{folder / labels_file} has no label for {unlabelled[0]!r:.120} and {len(unlabelled) - 1:,} more of the "
            f"images in {keys_file}. Restore both files from the archive of annotations."
        )
    return ImageFiles(
        paths=tuple(str(folder / key) for key in keys),
        labels=np.array([label_of[key] for key in keys], dtype=np.int64),
        class_names=class_names,
    )


def missing_images(files: ImageFiles) -> Iterator[str]:
    """Those of the images that are not on disk."""
    return (path for path in files.paths if not is_file(Path(path)))


def _class_names(path: Path) -> tuple[str, ...]:
    """As on disk, or as published where the list did not come along."""
    if not is_file(path):
        return CLOTHING1M
    names = read_lines(path)
    if len(names) != len(CLOTHING1M):
        raise DataError(f"{path} lists {len(names)} classes: Clothing1M has {len(CLOTHING1M)}.")
    return tuple(names)


def _keys(path: Path) -> Sequence[str]:
    keys = read_lines(path)
    seen = set()
    for key in keys:
        if key in seen:
            raise DataError(
                f"{path}: {key!r:.120} is listed twice; a key stands for one image. Remove one of the lines."
            )
        seen.add(key)
        _require_key(key, path)
    return keys


def _require_key(key: str, path: Path) -> None:
    """A key must not lead out of the folder of images."""
    parts = PurePosixPath(key).parts
    if len(parts) < 2 or parts[0] != "images" or ".." in parts or "\\" in key or "\0" in key:
        raise DataError(f"{path}: {key!r:.120} is not the key of an image: keys are like `images/0/…jpg`.")


def _label_of(path: Path, num_classes: int) -> dict[str, int]:
    labels: dict[str, int] = {}
    for line in read_lines(path):
        key, _, text = line.rpartition(" ")
        if not key or not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise DataError(f"{path}: {line!r:.120} is not a line `key label`.")
        label = int(text)
        if not 0 <= label < num_classes:
            raise DataError(
                f"{path}: label {label} of {key!r:.120} is out of range; with {num_classes} classes, labels are 0 to "
                f"{num_classes - 1}."
            )
        if labels.setdefault(key, label) != label:
            raise DataError(
                f"{path}: {key!r:.120} has two labels, {labels[key]} and {label}; a key stands for one image. Remove "
                "one of the lines."
            )
    return labels
