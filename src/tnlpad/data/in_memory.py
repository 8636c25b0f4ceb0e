"""Samples that a program holds, as the same dataset that files give: arrays, tensors, pictures, dataset objects.

What comes as arrays is taken as it is. Pictures of Pillow keep their sizes and are treated as image files are. Of a
Hugging Face dataset the table is used as it lies in memory, and no picture is decoded twice.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tnlpad.data.arrays import listing_of_arrays
from tnlpad.data.errors import DataError
from tnlpad.data.hugging_face import listing_of_tables
from tnlpad.data.listing import Listing, Part, label_as_given, part_named, require_unique
from tnlpad.data.manifest import label_column
from tnlpad.data.own import OwnDataset, dataset_of, open_dataset

IN_MEMORY = Path("data")  # how messages call it: as the argument is called
PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")


def open_samples(
    data: Any,
    labels: Any = None,
    *,
    label: str | None = None,
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    labelled: bool = True,
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
    """
    if holds_labels(data):
        for name, value in (("labels", labels), ("ids", ids), ("class_names", class_names)):
            if value is not None:
                raise DataError(f"{name} are given, and {_kind(data)} has its own: leave them out.")
    if isinstance(data, (str, os.PathLike)):
        return open_dataset(Path(data), label=label, labelled=labelled)
    if _is_hugging_face(data):
        return dataset_of(_of_hugging_face(data, label, labelled), IN_MEMORY, labelled=labelled)
    if label is not None:
        data, labels = _without_labels(data, labels, label, labelled)
    if _is_torch_dataset(data):
        data, labels, class_names = _gathered(data, labelled)
    given = _labels(labels) if labelled else None
    names = tuple(str(name) for name in class_names) if class_names is not None else None
    return dataset_of(_listing(data, given, ids, names), IN_MEMORY, labelled=labelled)


def holds_labels(data: Any) -> bool:
    """Whether these are samples that come with their labels."""
    return isinstance(data, (str, os.PathLike)) or _is_hugging_face(data) or _is_torch_dataset(data)


def _without_labels(data: Any, labels: Any, label: str, labelled: bool) -> tuple[Any, Any]:
    """A table of pandas without the column of its labels, and those."""
    if not hasattr(data, "columns"):
        if labelled:
            raise DataError(f"label={label!r} names a column, and {_kind(data)} has none: give its labels as `labels`.")
        return data, labels
    if labelled and labels is not None:
        raise DataError(f"labels are given, and so is label={label!r}: leave one of them out.")
    column = label_column(label, map(str, data.columns), IN_MEMORY, labelled=labelled)
    if column is None:
        return data, labels
    place = [str(name) for name in data.columns].index(column)
    return data.drop(columns=data.columns[place]), data.iloc[:, place]


def _kind(data: Any) -> str:
    return f"the path {str(data)[:200]}" if isinstance(data, (str, os.PathLike)) else f"a {type(data).__name__}"


def _is_hugging_face(data: Any) -> bool:
    """By its name: the package is no dependency."""
    return type(data).__module__.split(".")[0] == "datasets"


def _is_torch_dataset(data: Any) -> bool:
    from torch.utils.data import Dataset

    return isinstance(data, Dataset)


def _of_hugging_face(data: Any, label: str | None, labelled: bool) -> Listing:
    pieces: dict[Part | None, Any] = {}
    if hasattr(data, "keys"):  # a DatasetDict
        pieces = {part_named(name, IN_MEMORY): data[name] for name in data}
    else:
        pieces[None] = data
    for part, piece in pieces.items():
        if not hasattr(piece, "with_format") or not hasattr(piece, "__len__"):
            raise DataError(f"data is a {type(piece).__name__}, which is read once: load it without streaming.")
        if len(piece) == 0:
            raise DataError(f"data holds no sample{f' in {part}' if part else ''}: give a dataset that has some.")
    order: tuple[Part | None, ...] = ("train", None, "validation", "test")
    tables = {part: pieces[part].with_format("arrow")[:] for part in order if part in pieces}
    features = next(iter(pieces.values())).features.to_dict()
    return listing_of_tables(IN_MEMORY, tables, features, follow_paths=True, label=label, labelled=labelled)


def _gathered(dataset: Any, labelled: bool) -> tuple[list[Any], list[Any] | None, Sequence[str] | None]:
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


def _listing(
    data: Any, labels: list[Any] | None, ids: Sequence[Any] | None, class_names: tuple[str, ...] | None
) -> Listing:
    pictures = isinstance(data, (list, tuple)) and bool(data) and all(isinstance(each, Image.Image) for each in data)
    content = data if pictures else _array(data)
    count = len(content) if pictures or content.ndim else 0
    if labels is not None and len(labels) != count:
        raise DataError(f"there are {count:,} samples and {len(labels):,} labels: give one label for each sample.")
    if ids is not None and len(ids) != count:
        raise DataError(f"there are {count:,} samples and {len(ids):,} ids: give one id for each sample, or none.")
    names = [str(each) for each in ids] if ids is not None else [str(row) for row in range(count)]
    require_unique(names, IN_MEMORY)
    if not pictures:
        columns = tuple(map(str, data.columns)) if hasattr(data, "columns") else None  # of a table of pandas
        return listing_of_arrays(content, labels, where=IN_MEMORY, ids=names, columns=columns, class_names=class_names)
    given = [None] * count if labels is None else [label_as_given(each, IN_MEMORY) for each in labels]
    return Listing(ids=names, labels=given, files=[_as_png(each) for each in data], class_names=class_names)


def _array(data: Any) -> NDArray[Any]:
    """Arrays, tensors and tables of numbers, and lists of them."""
    if data is None:
        raise DataError("data is None: give images, features, a dataset or a path.")
    if isinstance(data, (list, tuple)):
        arrays = [_array(each) for each in data]
        shapes = [each.shape for each in arrays]
        different = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
        if different is not None:
            raise DataError(
                f"data: sample {different} has the shape {shapes[different]}, and the first one {shapes[0]}. Make them "
                "alike, or give pictures of Pillow, which are brought to one size."
            )
        return np.stack(arrays) if arrays else np.empty((0,))
    array = data.detach().cpu().numpy() if hasattr(data, "detach") else np.asarray(data)
    if array.dtype == object and hasattr(data, "columns"):
        return _table(data)
    if array.dtype == object:
        raise DataError(
            f"data is a {type(data).__name__} of things that are no numbers: give images as 8-bit numbers of shape "
            "N×H×W, N×H×W×C or N×C×H×W, features as N×D numbers, a dataset or a path."
        )
    return array


def _table(data: Any) -> NDArray[Any]:
    """A table whose columns are of different kinds, as long as each is numbers or yes and no."""
    for name in data.columns:
        if np.asarray(data[name]).dtype == object:
            raise DataError(f"data: its column {str(name)[:80]!r} holds no numbers: leave it out, or encode it.")
    return np.asarray(data, dtype=np.float64)


def _labels(labels: Any) -> list[Any]:
    if labels is None:
        raise DataError("labels are missing: give one for each sample.")
    array = labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels
    shape = getattr(array, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        array, shape = np.asarray(array)[:, 0], shape[:1]  # a column, as Keras and pandas give labels
    if shape is not None and len(shape) != 1:
        raise DataError(
            f"labels have the shape {tuple(shape)}: give one class for each sample, such as labels.argmax(1) of rows "
            "with a 1."
        )
    return [each.item() if hasattr(each, "item") else each for each in array]


def _as_png(picture: Image.Image) -> bytes:
    """Without loss, and with little effort."""
    content = io.BytesIO()
    upright = picture if picture.mode in PNG_MODES else picture.convert("RGB")
    upright.save(content, "PNG", compress_level=1)
    return content.getvalue()
