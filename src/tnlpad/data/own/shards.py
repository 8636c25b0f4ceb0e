"""Read a folder of tar shards in the layout of WebDataset: images, each with a label in a .cls or .json member."""

import os
from pathlib import Path

from tnlpad.data.own.dataset import Listing, ReadOptions
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
    labels: list[str | None] = [None] * len(images)
    if options.labelled:
        labels = [label or None for label in index.labels]
        if not any(labels):
            raise DataError(f"{folder}: no image has a label. Add a member with its class for each, such as 0001.cls.")
    return Listing(ids=index.names, labels=labels, files=ShardContents(images))
