"""Find where the images of a dataset are stored: as prepared pixels, in tar shards, or as files.

In the folder of a dataset, images are looked for in `prepared-N` (pixels of the size that a run needs), then in
`shards` (tar files), then in files under their own names. The lists of images and labels are the same for all of them,
and so are the pixels that a run sees.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tnlpad.data.prepared import MANIFEST, PreparedImages, open_prepared, prepared_name
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.data.shards import SHARDS_FOLDER, open_shards
from tnlpad.errors import DataError
from tnlpad.types import ImageSource, ImageStore, Index

MISSING = -1
FILES_FOLDER = "images"  # in the folder of a dataset


class NamedImages(ImageStore, Protocol):
    """Stored images that have names: paths relative to the folder of the dataset."""

    folder: Path

    def names(self) -> Iterator[bytes]: ...


class FileImages:
    """Images in files of their own, by their place in a sequence of paths."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def read(self, place: int) -> str:
        """Return the path of an image."""
        return self.paths[place]

    def where(self, place: int) -> str:
        """Return the path of an image."""
        return self.paths[place]


class ChosenImages:
    """Some images of a store, in an order of their own."""

    def __init__(self, store: ImageStore, places: Index) -> None:
        self.store, self.places = store, places.astype(np.int32)

    def read(self, place: int) -> ImageSource:
        """Return an image by its place in this order."""
        return self.store.read(int(self.places[place]))

    def where(self, place: int) -> str:
        """Name an image by its place in this order."""
        return self.store.where(int(self.places[place]))


def find_storage(folder: Path, resize: int | None, reporter: Reporter = SILENT) -> NamedImages | None:
    """Return the stored images in the folder of a dataset, or None if they are files.

    Args:
        folder: Folder of a dataset.
        resize: Pixels of the shorter side that the images will be resized to (default: not known; no prepared ones).
        reporter: Receives the progress of indexing shards.

    Raises:
        DataError: There are only images that were prepared for another size.
    """
    if resize is not None and (prepared := open_prepared(folder / prepared_name(resize))) is not None:
        return prepared
    shards = open_shards(folder / SHARDS_FOLDER, reporter)
    if shards is None and not os.path.isdir(folder / FILES_FOLDER):
        _refuse_other_sizes(folder, resize)
    return shards


def _refuse_other_sizes(folder: Path, resize: int | None) -> None:
    complete = [each.name for each in sorted(folder.glob(prepared_name("*"))) if os.path.isfile(each / MANIFEST)]
    if complete:
        size = "them undecoded" if resize is None else f"resize={resize}"
        raise DataError(
            f"{folder} has only images for another size ({', '.join(complete)}), and {size} is needed. Name the folder "
            "with the files by --root, or prepare the images for that size."
        )


def stored(storage: NamedImages, names: Sequence[bytes]) -> ChosenImages:
    """Return the images of these names from a storage; raise DataError if one is not there."""
    places = places_of(storage.names(), names)
    missing = np.flatnonzero(places == MISSING)
    if len(missing):
        name, more = names[missing[0]].decode(), f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise DataError(
            f"{storage.folder} has no image {name!r:.120}{more}, and the lists name it. Add what is missing, or move "
            f"{storage.folder.name} away to read the images from files."
        )
    return ChosenImages(storage, places)


def prepared_beside(source: Path, resize: int) -> Path:
    """Return where runs look for the prepared images of a user's folder."""
    source = Path(os.path.abspath(source))
    return source.with_name(f"{source.name}.{prepared_name(resize)}")


def prepared_of(
    source: Path, ids: Sequence[str], digests: Sequence[bytes], rows: Index, resize: int
) -> ChosenImages | None:
    """Return the prepared pixels of some of a user's images, or None if there are none beside the data.

    Args:
        source: The user's folder.
        ids, digests: Name of each image, and SHA-256 of its file.
        rows: The images to choose.
        resize: Pixels of the shorter side.

    Raises:
        DataError: An image is new or has changed since.
    """
    prepared = open_prepared(prepared_beside(source, resize))
    return None if prepared is None else unchanged(prepared, ids, digests, rows)


def unchanged(prepared: PreparedImages, ids: Sequence[str], digests: Sequence[bytes], rows: Index) -> ChosenImages:
    """Return the prepared pixels of some images; raise DataError if one is new or has changed. See `prepared_of`."""
    places, content = places_of(prepared.names(), [ids[row].encode() for row in rows.tolist()]), prepared.digests()
    fresh = [
        row
        for row, place in zip(rows.tolist(), places.tolist(), strict=True)
        if place == MISSING or content[place].tobytes() != digests[row]
    ]
    if fresh:
        more = f" and {len(fresh) - 1:,} other images were" if len(fresh) > 1 else " was"
        raise DataError(
            f"{prepared.folder} was written before {ids[fresh[0]]!r:.120}{more} added or changed. Remove it, and "
            "prepare the images again with `tnlpad data prepare` if you like."
        )
    return ChosenImages(prepared, places)


def places_of(names: Iterable[bytes], wanted: Sequence[bytes]) -> Index:
    """Return the place of each wanted name among the names, or MISSING."""
    rows = {name: row for row, name in enumerate(wanted)}
    places = [MISSING] * len(wanted)  # a list is faster one by one than an array
    for place, name in enumerate(names):
        if (row := rows.get(name)) is not None:
            places[row] = place
    return np.array(places, dtype=np.int64)
