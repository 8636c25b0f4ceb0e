"""Which reader a path is for."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tnlpad.data.errors import DataError
from tnlpad.data.own.dataset import OwnDataset
from tnlpad.data.own.folder import read_folder, read_unlabelled_folder
from tnlpad.data.own.hugging_face import is_hugging_face, read_hugging_face, read_picture_table
from tnlpad.data.own.listing import Listing
from tnlpad.data.own.manifest import SUFFIXES, read_manifest
from tnlpad.data.own.npz import read_npz
from tnlpad.data.own.paths import is_image_name
from tnlpad.data.own.usable import dataset_of
from tnlpad.data.reporting import SILENT, Reporter


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
