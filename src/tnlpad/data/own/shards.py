"""Read a folder of tar shards in the layout of WebDataset: images, each with a label in a .cls or .json member."""

import os
from pathlib import Path

from tnlpad.data.own.dataset import Listing, ReadOptions
from tnlpad.data.own.labels import MAX_DIGITS, Label
from tnlpad.data.shards import ShardContents, open_shards, shard_files
from tnlpad.errors import DataError


def is_shard_folder(folder: Path) -> bool:
    """Whether a folder holds shards, and no folders that could be classes."""
    if not shard_files(folder):
        return False
    with os.scandir(folder) as entries:
        return not any(each.is_dir() and not each.name.startswith(".") for each in entries)


def read_shard_folder(folder: Path, options: ReadOptions) -> Listing:
    """List every image of all shards, in their order. Ids are the names of the members."""
    images = open_shards(folder)
    if images is None or not len(images):
        raise DataError(f"{folder}: the shards hold no images. Members are images, such as 0001.jpg, and 0001.cls.")
    index = images.index()
    labels: list[Label | None] = [None] * len(images)
    if options.labelled:
        labels = _labels(folder, list(index.labels))
    return Listing(ids=index.names, labels=labels, files=ShardContents(images))


def _labels(folder: Path, texts: list[str]) -> list[Label | None]:
    """Return labels as whole numbers if all are, else as texts; None for a missing one."""
    if not any(texts):
        raise DataError(f"{folder}: no image has a label. Add a member with its class for each, such as 0001.cls.")
    numbers = all(text.isascii() and text.isdigit() and len(text) < MAX_DIGITS for text in texts if text)
    return [None if not text else int(text) if numbers else text for text in texts]
