"""Arrays of NumPy made of what programs hold numbers and labels in: tensors, tables of pandas, lists.

Datasets of other libraries, as a program holds them: those of Hugging Face and of torch.

Samples that a program holds, as the same dataset that files give: arrays, tensors, pictures, dataset objects.

What comes as arrays is taken as it is. Pictures of Pillow keep their sizes and are treated as image files are.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tnlpad.data.own.arrays import listing_of_arrays, one_label_each
from tnlpad.data.own.columns import ID_COLUMNS, column_called, require_different, without
from tnlpad.data.own.dataset import IN_MEMORY, Listing, OwnDataset, Part, given_ids, part_named
from tnlpad.data.own.hugging_face import in_order, listing_of_tables
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.open import dataset_of, open_dataset
from tnlpad.errors import DataError


def array_of(data: Any) -> NDArray[Any]:
    """Arrays and tensors of numbers, and lists of them."""
    if data is None:
        raise DataError("data is None: give images, features, a dataset or a path.")
    if isinstance(data, (list, tuple)):
        arrays = [array_of(each) for each in data]
        shapes = [each.shape for each in arrays]
        different = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
        if different is not None:
            raise DataError(
                f"data: sample {different} has the shape {shapes[different]}, and the first one {shapes[0]}. Make them "
                "alike, or give pictures of Pillow, which are brought to one size."
            )
        return np.stack(arrays) if arrays else np.empty((0,))
    if hasattr(data, "detach"):
        return _of_tensor(data)
    array = np.ma.filled(data.astype(np.float64), np.nan) if np.ma.isMaskedArray(data) else np.asarray(data)
    if array.dtype == object:
        raise DataError(
            f"data is a {type(data).__name__} of things that are no numbers: give images as 8-bit numbers of shape "
            "N×H×W, N×H×W×C or N×C×H×W, features as N×D numbers, a dataset or a path."
        )
    return array


def labels_of(labels: Any) -> Any:
    """Labels as a list, or an array of NumPy."""
    if labels is None:
        raise DataError("labels are missing: give one for each sample.")
    if isinstance(labels, (set, frozenset, Mapping)) or not hasattr(labels, "__iter__"):
        raise DataError(f"labels are a {type(labels).__name__}: give a list or an array, with one for each sample.")
    if hasattr(labels, "detach"):
        return _of_tensor(labels)
    return np.asarray(_without_gaps(labels)) if hasattr(labels, "shape") else list(labels)


def _of_tensor(data: Any) -> NDArray[Any]:
    data = data.detach().cpu()
    array: NDArray[Any] = (data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy()
    return array


def columns_of(data: Any) -> dict[str, NDArray[Any]]:
    """The columns of a table of pandas."""
    names = [str(name) for name in data.columns]
    require_different(names, IN_MEMORY)
    return {name: np.asarray(_without_gaps(data[key])) for name, key in zip(names, data.columns, strict=True)}


def _without_gaps(values: Any) -> Any:
    """A table or column of pandas with None in place of its words for nothing; anything else as it is."""
    if not hasattr(values, "notna") or np.asarray(values.notna()).all():
        return values
    return values.astype(object).where(values.notna(), None)


def is_hugging_face_dataset(data: Any) -> bool:
    """Whether this is one of Hugging Face's, by its name: the package is no dependency."""
    return type(data).__module__.split(".")[0] == "datasets"


def is_torch_dataset(data: Any) -> bool:
    """Whether this is one of torch's."""
    from torch.utils.data import Dataset

    return isinstance(data, Dataset)


def listing_of_hugging_face(data: Any, label: str | None, labelled: bool, columns: Sequence[str] = ()) -> Listing:
    """The samples of a `Dataset` or a `DatasetDict`; its table is used as it lies in memory, and no picture decoded."""
    parts: list[tuple[Part | None, Any]] = [(None, data)]
    if hasattr(data, "keys"):  # a DatasetDict
        parts = [(part_named(name, IN_MEMORY), data[name]) for name in data]
    for part, piece in parts:
        if not hasattr(piece, "with_format") or not hasattr(piece, "__len__"):
            raise DataError(f"data is a {type(piece).__name__}, which is read once: load it without streaming.")
        if len(piece) == 0:
            raise DataError(f"data holds no sample{f' in {part}' if part else ''}: give a dataset that has some.")
    if not parts:
        raise DataError("data holds no sample: give a dataset that has some.")
    tables = in_order(((part, piece.with_format("arrow")[:]) for part, piece in parts), IN_MEMORY)
    features = parts[0][1].features.to_dict()
    return listing_of_tables(
        IN_MEMORY, tables, features, follow_paths=True, label=label, labelled=labelled, columns=columns
    )


def gathered(dataset: Any, labelled: bool) -> tuple[list[Any], list[Any] | None, Sequence[str] | None]:
    """Every sample of a torch dataset, its label, and the names of the classes as torchvision calls them."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError(
            f"data is a {type(dataset).__name__} without a length: give a dataset that is indexed by number."
        )
    images, labels = [], []
    for row in range(len(dataset)):
        sample = dataset[row]
        pair = isinstance(sample, (tuple, list)) and len(sample) > 1
        if labelled and not pair:
            raise DataError(
                f"data[{row}] is a {type(sample).__name__}: a dataset gives a pair of an image and its label."
            )
        images.append(sample[0] if isinstance(sample, (tuple, list)) else sample)
        labels.append(sample[1] if pair else None)
    names = getattr(dataset, "classes", None)
    named = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return images, labels if labelled else None, names if named and names else None


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
