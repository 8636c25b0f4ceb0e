"""From a listing to a dataset: every sample is looked at, and what cannot be used is left out with the reason.

Every image is decoded once here, so that none fails in the middle of a training.

A person's image files as one array.

Which reader a path is for.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.arrays import read_npz
from tnlpad.data.own.dataset import DataShape, Encoded, Kind, Listing, OwnDataset, Part, Problem, fingerprint
from tnlpad.data.own.folder import is_image_name, read_folder, read_unlabelled_folder
from tnlpad.data.own.hugging_face import is_hugging_face, read_hugging_face, read_picture_table
from tnlpad.data.own.labels import encoded, known_labels, notes_on_classes, reason_no_class
from tnlpad.data.own.manifest import SUFFIXES, read_manifest
from tnlpad.data.pixels import Channels, ImageInfo, probe
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.data.stream import decode
from tnlpad.errors import DataError

UNLABELLED = -1
Looked = ImageInfo | bytes | str  # what is known of a sample: an image, a digest, or why it cannot be used


def dataset_of(
    listing: Listing,
    source: Path,
    images_folder: Path | None = None,
    *,
    label_column: str | None = None,
    labelled: bool = True,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """The samples of a listing that can be used; without `labelled`, also those that have no label."""
    looked = _looked_at(listing, reporter)
    kept, problems = _sorted_out(listing, looked, labelled, source)
    labels, class_names = np.full(len(kept), UNLABELLED, dtype=np.int64), tuple[str, ...]()
    if labelled:
        given = [label for row in kept if (label := listing.labels[row]) is not None]
        labels, class_names = encoded(given, listing.class_names)
    seen = tuple(each for row in kept if isinstance(each := looked[row], ImageInfo))
    digests = tuple(_digest(looked[row]) for row in kept)
    parts = tuple(listing.parts[row] for row in kept) if listing.parts is not None else None
    ids = tuple(listing.ids[row] for row in kept)
    images = listing.images[kept] if listing.images is not None else None
    features = listing.features[kept] if listing.features is not None else None
    kind: Kind = "files" if listing.files is not None else "images" if images is not None else "features"
    return OwnDataset(
        source=source,
        images_folder=images_folder,
        label_column=label_column,
        kind=kind,
        ids=ids,
        labels=labels,
        class_names=class_names,
        parts=parts,
        images=images,
        files=_Chosen(listing.files, kept) if listing.files is not None else None,
        features=features,
        columns=listing.columns,
        seen=seen or None,
        digests=digests,
        problems=problems,
        further=_rows(listing.further, kept),
        picture_column=listing.picture_column,
        notes=(*listing.notes, *notes_on_classes(labels, class_names)),
        shape=DataShape(
            fingerprint=fingerprint(kind, ids, labels, class_names, parts, digests),
            kind=kind,
            samples=len(ids) - _count(parts, "test"),
            validation=_count(parts, "validation"),
            test=_count(parts, "test"),
            classes=len(class_names),
            **_sizes(images, features, seen),
        ),
    )


def _looked_at(listing: Listing, reporter: Reporter) -> list[Looked]:
    if listing.files is not None:
        return list(in_threads(probe, listing.files, "Looking at images", reporter))
    rows = listing.images if listing.images is not None else listing.features
    assert rows is not None, "a listing has files, images or features"
    digests: list[Looked] = [hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest() for row in rows]
    if listing.features is not None:
        for row in np.flatnonzero(~np.isfinite(listing.features).all(1)):
            column = int(np.flatnonzero(~np.isfinite(listing.features[row]))[0])
            digests[row] = f"has no finite number in column {listing.columns[column]!r}"
    return digests


def _sorted_out(
    listing: Listing, looked: Sequence[Looked], labelled: bool, source: Path
) -> tuple[list[int], tuple[Problem, ...]]:
    """The rows that can be used, and the others with their reasons; an error if there are none to use."""
    known = known_labels(listing.class_names)
    kept: list[int] = []
    problems = list(listing.problems)
    for row, each in enumerate(looked):
        reason = each if isinstance(each, str) else None
        if reason is None and labelled:
            reason = reason_no_class(listing.labels[row], known)
        if reason is None:
            kept.append(row)
        else:
            problems.append(Problem(id=listing.ids[row], reason=reason))
    if not looked and not problems:
        raise DataError(f"{source} holds no samples.")
    if not kept:
        reason = f"{problems[0].id[:200]}: {problems[0].reason}"
        notes = "".join(f" Note: {note}" for note in listing.notes)
        raise DataError(f"{source}: none of its {len(looked):,} samples can be used; {reason}.{notes}")
    return kept, tuple(problems)


def _rows(table: Any, kept: Sequence[int]) -> Any:
    return table if table is None or len(table) == len(kept) else table.take(kept)


def _digest(looked: Looked) -> bytes:
    assert not isinstance(looked, str), "left out"
    return looked.digest if isinstance(looked, ImageInfo) else looked


def _count(parts: Sequence[Part] | None, part: Part) -> int:
    return parts.count(part) if parts is not None else 0


def _sizes(
    images: NDArray[np.uint8] | None, features: NDArray[np.float32] | None, seen: Sequence[ImageInfo]
) -> dict[str, Any]:
    if images is not None:
        channels, height, width = images.shape[1:]
        return {"channels": channels, "height": height, "width": width}
    if features is not None:
        return {"channels": features.shape[1], "height": 1, "width": 1}
    side = int(np.median([min(each.width, each.height) for each in seen]))
    return {"channels": 1 if all(each.gray for each in seen) else 3, "height": side, "width": side}


class _Chosen(Sequence[Any]):
    """Some entries of a sequence, without taking them out of it."""

    def __init__(self, entries: Sequence[Any], places: Sequence[int]) -> None:
        self.entries, self.places = entries, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.entries[each] for each in self.places[place]]
        return self.entries[self.places[place]]


def decoded(
    files: Sequence[Encoded], size: int, channels: Channels, *, reporter: Reporter = SILENT
) -> NDArray[np.uint8]:
    """All of the images: shorter side to `size` pixels, the square in the middle cut out."""

    def one(file: Encoded) -> NDArray[np.uint8]:
        return decode(file, size, size, channels=channels)

    pixels = np.empty((len(files), channels, size, size), dtype=np.uint8)
    for row, image in enumerate(in_threads(one, files, "Decoding images", reporter)):
        pixels[row] = image
    return pixels


def open_dataset(
    path: Path | str,
    *,
    images: Path | str | None = None,
    label: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """Read a folder of images, a CSV or Parquet table, an .npz file or a Hugging Face dataset on disk.

    Every image is decoded once, so that none fails in the middle of a training.

    Args:
        path: Where the data lie.
        images: For tables, the folder that their paths are relative to; the table's own when not given.
        label: For tables, the column of the classes, and for .npz the array; one with a usual name when not given.
        labelled: Whether samples must have labels. Without, labels are not looked at, an image folder is every image
            below it, and one image will do: data to predict on.
        columns: Of tables, the features to take, whatever else there is; all that there are when not given.
        ignored: Of tables of numbers in files, columns to read as if they were not there.
        reporter: Told how far it has come.
    """
    source, folder = Path(path), Path(images) if images is not None else None
    listing = _read(source, folder, label, labelled, columns, ignored)
    if ignored and (os.path.isdir(source) or source.suffix.lower() not in SUFFIXES or listing.features is None):
        raise DataError(f"--ignore {ignored[0]} is for tables of numbers, and {source} is none: leave it out.")
    if folder is not None and (os.path.isdir(source) or source.suffix.lower() not in SUFFIXES):
        raise DataError(f"--images {folder} is for tables with a column of paths, and {source} is none: leave it out.")
    own = dataset_of(listing, source, folder, label_column=label, labelled=labelled, reporter=reporter)
    return replace(own, ignored=tuple(ignored))


def is_path(text: str) -> bool:
    """Whether a word that could name a dataset of the catalogue is a path."""
    return os.sep in text or text.lower().endswith((*SUFFIXES, ".npz")) or text in (".", "..") or os.path.exists(text)


def _read(
    source: Path,
    images: Path | None,
    label: str | None,
    labelled: bool,
    columns: Sequence[str],
    ignored: Sequence[str],
) -> Listing:
    try:
        if os.path.isdir(source):
            return _read_folder(source, label, labelled, columns)
        if not os.path.isfile(source):
            wrong = "is neither a file nor a folder" if os.path.exists(source) else "does not exist"
            raise DataError(f"{source} {wrong}. Name a folder of images, a .csv, .parquet or .npz file.")
    except OSError as error:
        raise DataError(f"{str(source)[:200]} cannot be read: {error.strerror or error}.") from error
    suffix = source.suffix.lower()
    if suffix == ".npz":
        return read_npz(source, label=label, labelled=labelled, columns=columns)
    if suffix == ".parquet" and images is None and not columns:
        pictures = read_picture_table(source, label=label, labelled=labelled)
        if pictures is not None:
            return pictures
    if suffix in SUFFIXES:
        return read_manifest(source, images, label=label, labelled=labelled, columns=columns, ignored=ignored)
    if is_image_name(source.name) and not labelled:
        return Listing(ids=[source.name], labels=[None], files=[str(source)])
    raise DataError(
        f"{source} is of no known kind. Give a folder with a folder of images per class, a table (.csv, .tsv, "
        ".txt, .parquet), an .npz file, or a folder that Hugging Face's save_to_disk wrote. Of a workbook, save "
        "the sheet as CSV."
    )


def _read_folder(source: Path, label: str | None, labelled: bool, columns: Sequence[str]) -> Listing:
    if is_hugging_face(source):
        return read_hugging_face(source, label=label, labelled=labelled, columns=columns)
    if label is not None and labelled:
        raise DataError(f"--label {label} names a column, and in {source} the folders are the classes: leave it out.")
    return read_folder(source) if labelled else read_unlabelled_folder(source)
