"""Prepare the images of a published dataset or of a user's folder, at the place where runs look for them.

- A published dataset: `OUT/food-101/prepared-128`, with copies of the lists of images and labels beside it. OUT is then
  a root of datasets that needs no other files. By default it is the root that the images are in.
- A user's folder `photos`: `OUT/photos.prepared-73`. Runs find it beside the folder, which is the default.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tnlpad.atomic_files import write_by_rename
from tnlpad.data.catalogue import CATALOGUE, find
from tnlpad.data.datasets import read, require_layout
from tnlpad.data.files import default_root, readable
from tnlpad.data.paths import PathList
from tnlpad.data.photographs import FOOD101_SPLITS, clothing1m_splits, list_files
from tnlpad.data.prepare import Prepared, prepare_images
from tnlpad.data.prepared import PreparedImages, prepared_name
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.data.storage import FileImages, find_storage, prepared_beside, stored, unchanged
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles

PREPARABLE = tuple(
    name for name, info in CATALOGUE.items() if any(each.format in ("food101", "clothing1m") for each in info.layouts)
)


def prepare_published(
    name: str, root: Path | None, out: Path | None, *, resize: int, reporter: Reporter = SILENT
) -> Prepared:
    """Prepare all images of a dataset that stays on disk.

    Args:
        name: Name in the catalogue.
        root: Folder of all datasets (default: `default_root()`).
        out: Root to write to (default: the same).
        resize: Pixels of the shorter side.
        reporter: Receives progress.
    """
    info, source = find(name), root if root is not None else default_root()
    if name not in PREPARABLE:
        raise ValueError(f"{name!r}: it is kept in memory and need not be prepared, unlike {' and '.join(PREPARABLE)}.")
    layout = require_layout(info, source)
    folder, target = source / layout.folder, (out if out is not None else source) / layout.folder
    splits = FOOD101_SPLITS if layout.format == "food101" else clothing1m_splits(folder)
    names = _all_names([read(info, source, split) for split in splits])
    storage = find_storage(folder, None, reporter)
    paths = PathList(names, prefix=os.path.join(folder, ""))
    images = FileImages(paths) if storage is None else stored(storage, names)
    target.mkdir(parents=True, exist_ok=True)
    if not os.path.samefile(folder, target):
        _copy_lists(folder, target)
    destination = target / prepared_name(resize)
    return prepare_images(names, images, destination, resize=resize, source=name, reporter=reporter)


def _all_names(parts: Sequence[object]) -> list[bytes]:
    """Return the names of the images of all splits, each once."""
    names: dict[bytes, None] = {}
    for files in parts:
        assert isinstance(files, ImageFiles), "its images stay on disk"
        assert isinstance(files.paths, PathList), "as their readers return them"
        names.update(dict.fromkeys(files.paths.names()))
    return list(names)


def _copy_lists(folder: Path, target: Path) -> None:
    for path in list_files(folder):
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        with readable(path):
            write_by_rename(copy, path.read_bytes())


def prepare_own(source: Path, out: Path | None, *, resize: int, reporter: Reporter = SILENT) -> Prepared:
    """Prepare the images of a user's data that can be read.

    Args:
        source: Folder of images, or other data with encoded images.
        out: Folder in which to write the folder of prepared images (default: that of the data).
        resize: Pixels of the shorter side.
        reporter: Receives progress.
    """
    from tnlpad.data.own.open import open_dataset
    from tnlpad.data.own.selection import EncodedImages

    own = open_dataset(source, reporter=reporter)
    if own.files is None:
        raise DataError(f"{source} has no image files to prepare. Give a folder with one folder of images per class.")
    if own.problems:
        first, count = own.problems[0], len(own.problems)
        reporter.say(f"Left out: {count:,} of {count + len(own.ids):,} images. {first.id[:80]}: {first.reason}.")
    destination = prepared_beside(source, resize)
    destination = destination if out is None else out / destination.name
    names = [name.encode() for name in own.ids]
    images = EncodedImages(own.files, own.ids, own.source)
    prepared = prepare_images(names, images, destination, resize=resize, source=str(source), reporter=reporter)
    unchanged(PreparedImages(destination), own.ids, own.digests, np.arange(len(own.ids)))
    return prepared
