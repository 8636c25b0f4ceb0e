"""Clothing1M: a million shop photographs whose labels come from the text around them, and some labelled by people.

Paper: T. Xiao et al., "Learning from Massive Noisy Labeled Data for Image Classification", CVPR 2015. Key lists name
the images of each split ("images/7/…jpg", one per line), and two files of lines "key label" give the noisy and the
clean label of an image. Images are not looked for on reading, since asking the disk a million times takes a while;
`tnlpad data check clothing1m` does.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from tnlpad.data.class_names import CLOTHING1M
from tnlpad.data.errors import DataError
from tnlpad.data.files import is_file, read_lines
from tnlpad.types import ImageFiles

CLASS_LIST = "category_names_eng.txt"
# Split: list of keys, file of labels, published number of images.
SPLITS = {
    "train": ("noisy_train_key_list.txt", "noisy_label_kv.txt", 1_000_000),
    "clean_train": ("clean_train_key_list.txt", "clean_label_kv.txt", 47_570),
    "validation": ("clean_val_key_list.txt", "clean_label_kv.txt", 14_313),
    "test": ("clean_test_key_list.txt", "clean_label_kv.txt", 10_526),
}


def read_clothing1m(folder: Path, split: str) -> ImageFiles:
    """A split: `train` with its noisy labels; `clean_train`, `validation` and `test` with those given by people."""
    keys_file, labels_file, _ = SPLITS[split]
    class_names = _class_names(folder / CLASS_LIST)
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
