"""Samples that a program holds, as the same dataset that files give: arrays, tensors, pictures, dataset objects.

What comes as arrays is taken as it is. Pictures of Pillow keep their sizes and are treated as image files are.
"""

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tnlpad.data.errors import DataError
from tnlpad.data.own.arrays import listing_of_arrays, one_label_each
from tnlpad.data.own.columns import ID_COLUMNS, column_called, without
from tnlpad.data.own.dataset import OwnDataset
from tnlpad.data.own.dataset_objects import (
    gathered,
    is_hugging_face_dataset,
    is_torch_dataset,
    listing_of_hugging_face,
)
from tnlpad.data.own.listing import IN_MEMORY, Listing, given_ids
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.opening import open_dataset
from tnlpad.data.own.plain_arrays import array_of, columns_of, labels_of
from tnlpad.data.own.usable import dataset_of

PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")


def open_samples(
    data: Any,
    labels: Any = None,
    *,
    label: str | None = None,
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> OwnDataset:
    """Samples of any kind, with their labels as given.

    Args:
        data: A path as `open_dataset` takes it; an array or tensor of images or rows of features; a list of pictures or
            arrays; a torch `Dataset` of (image, label); a Hugging Face `Dataset` or `DatasetDict`.
        labels: One for each sample, where `data` does not hold them.
        label: The column that holds them, of a table of pandas, of a Hugging Face dataset, or where a path leads.
        ids: Names of the samples; their places when not given.
        class_names: What the labels 0, 1, 2 … are called.
        labelled: Whether samples must have labels; without, none are looked at.
        columns: Of tables, the features to take, whatever else there is; all that there are when not given.
        ignored: Of tables of numbers, in a file or of pandas, columns to read as if they were not there.
    """
    if holds_labels(data):
        for name, value in (("labels", labels), ("ids", ids), ("class_names", class_names)):
            if value is not None:
                raise DataError(f"{name} are given, and {_kind(data)} has its own: leave them out.")
    if isinstance(data, (str, os.PathLike)):
        return open_dataset(Path(data), label=label, labelled=labelled, columns=columns, ignored=ignored)
    if ignored and not _is_pandas(data):
        raise DataError(
            f"ignore={ignored[0]!r} is for tables of numbers, in a file or of pandas, and {_kind(data)} is none: leave "
            "it out."
        )
    if is_hugging_face_dataset(data):
        return dataset_of(listing_of_hugging_face(data, label, labelled, columns), IN_MEMORY, labelled=labelled)
    names = tuple(str(name) for name in class_names) if class_names is not None else None
    if _is_pandas(data):
        listing = _of_table(data, labels, label, ids, names, labelled, columns, ignored)
        return dataset_of(listing, IN_MEMORY, labelled=labelled)
    if label is not None and labelled:
        raise DataError(f"label={label!r} names a column, and {_kind(data)} has none: give its labels as `labels`.")
    if is_torch_dataset(data):
        data, labels, class_names = gathered(data, labelled)
        names = tuple(class_names) if class_names is not None else None
    return dataset_of(_listing(data, labels_of(labels) if labelled else None, ids, names), IN_MEMORY, labelled=labelled)


def holds_labels(data: Any) -> bool:
    """Whether these are samples that come with their labels."""
    return isinstance(data, (str, os.PathLike)) or is_hugging_face_dataset(data) or is_torch_dataset(data)


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "columns") and not is_hugging_face_dataset(data)


def _of_table(
    data: Any,
    labels: Any,
    label: str | None,
    ids: Sequence[Any] | None,
    class_names: tuple[str, ...] | None,
    labelled: bool,
    columns: Sequence[str],
    ignored: Sequence[str],
) -> Listing:
    """A table of pandas, which is read as one in a file; its labels may be beside it."""
    if labelled and labels is not None and label is not None:
        raise DataError(f"labels are given, and so is label={label!r}: leave one of them out.")
    given = one_label_each(labels_of(labels), data, IN_MEMORY) if labelled and labels is not None else None
    table = columns_of(data)
    table = {name: table[name] for name in without(ignored, table, IN_MEMORY)}
    if ids is not None:
        others = {name: values for name, values in table.items() if column_called(ID_COLUMNS, [name]) is None}
        table = {**others, ID_COLUMNS[0]: np.array(_names(ids, len(data)))}
    found = listing_of(table, IN_MEMORY, Path(), label=label, labelled=labelled, columns=columns, labels=given)
    return replace(found, class_names=class_names)


def _kind(data: Any) -> str:
    return f"the path {str(data)[:200]}" if isinstance(data, (str, os.PathLike)) else f"a {type(data).__name__}"


def _listing(data: Any, labels: Any, ids: Sequence[Any] | None, class_names: tuple[str, ...] | None) -> Listing:
    pictures = isinstance(data, (list, tuple)) and bool(data) and all(isinstance(each, Image.Image) for each in data)
    content = data if pictures else array_of(data)
    count = len(content) if pictures or content.ndim else 0
    if not pictures and content.ndim and count == 0:
        raise DataError(f"{IN_MEMORY} holds no sample: its shape is {content.shape}. Give some.")
    names = _names(ids, count)
    if pictures:
        given = [None] * count if labels is None else one_label_each(labels, content, IN_MEMORY)
        return Listing(ids=names, labels=given, files=[_as_png(each) for each in data], class_names=class_names)
    return listing_of_arrays(
        [content],
        [labels] if labels is not None else None,
        where=IN_MEMORY,
        ids=names,
        class_names=class_names,
    )


def _names(ids: Sequence[Any] | None, count: int) -> list[str]:
    if ids is not None and len(ids) != count:
        raise DataError(f"there are {count:,} samples and {len(ids):,} ids: give one id for each sample, or none.")
    return given_ids(ids, IN_MEMORY) if ids is not None else [str(row) for row in range(count)]


def _as_png(picture: Image.Image) -> bytes:
    """Without loss, and with little effort."""
    content = io.BytesIO()
    upright = picture if picture.mode in PNG_MODES else picture.convert("RGB")
    upright.save(content, "PNG", compress_level=1)
    return content.getvalue()
