"""Open samples that a program holds: arrays, tensors, images, pandas tables, torch and Hugging Face datasets.

Arrays are taken as they are. Images of Pillow keep their sizes and are treated like image files.
"""

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tnlpad.data.own.arrays import SHAPES, listing_of_arrays, one_label_each, with_gaps_marked
from tnlpad.data.own.column_kinds import as_text
from tnlpad.data.own.columns import ID_COLUMNS, find_column, require_different, without
from tnlpad.data.own.dataset import (
    IN_MEMORY,
    Listing,
    OwnDataset,
    Part,
    Problem,
    ReadOptions,
    given_ids,
    groups_of,
    part_named,
)
from tnlpad.data.own.hugging_face import in_order, listing_of_tables
from tnlpad.data.own.labels import Label
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.open import dataset_of, open_dataset
from tnlpad.data.pixels import TRANSPARENT_MODES, eight_bits, reason_of
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError

PNG_MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")


def open_samples(
    data: Any,
    labels: Any = None,
    *,
    label: str | None = None,
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    categories: Sequence[str] | None = None,
    ignored: Sequence[str] = (),
    text: str | None = None,
    group: str | Sequence[Any] | None = None,
    id: str | None = None,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """Open samples of any kind.

    Args:
        data: A path as `open_dataset` takes it; an array or tensor of images or features; a list of images, arrays or
            texts; a pandas table; a torch `Dataset` of (image, label); a Hugging Face `Dataset` or `DatasetDict`.
        labels: One per sample, if `data` does not hold them.
        label: Label column of a pandas table, a Hugging Face dataset, or the file at a path.
        ids: Names of the samples (default: a pandas index that is not a plain count of the rows, else the row numbers).
        class_names: Names of the labels 0, 1, 2 …
        group: Column of the groups as in `ReadOptions`, or a value per sample.
        labelled, columns, categories, ignored, text, id: As in `ReadOptions`.
        reporter: Receives progress.
    """
    options = ReadOptions(
        label=label,
        labelled=labelled,
        columns=columns,
        categories=categories,
        ignored=ignored,
        text=text,
        group=group if isinstance(group, str) else None,
        id=id,
    )
    ids, groups = _listed(ids), None if isinstance(group, str) else _listed(group)
    if holds_labels(data):
        for name, value in (("labels", labels), ("ids", ids), ("class_names", class_names), ("groups", groups)):
            if value is not None:
                raise DataError(f"{name} are given, and {_kind(data)} has its own: leave them out.")
    if isinstance(data, (str, os.PathLike)):
        return open_dataset(Path(data), **vars(options), reporter=reporter)
    _refuse_columns(data, options)
    _require_same_order(data, {"labels": labels if labelled else None, "groups": group})
    names = _names(class_names)
    if _is_hugging_face(data):
        listing = _list_hugging_face(data, options)
    elif _is_pandas(data):
        listing = replace(_list_pandas(data, labels, ids, options), class_names=names)
    else:
        if _is_torch(data):
            data, labels, names = _gather(data, labelled)
        arrays = _list_arrays(data, labels_of(labels) if labelled else None, ids, names)
        listing = with_gaps_marked(arrays, options)
    if groups is not None:
        count = len(listing.ids) + len(listing.problems)
        if len(groups) != count:
            raise DataError(f"there are {count:,} samples and {len(groups):,} groups: give one per sample.")
        of_rows = groups_of(groups)
        listing = replace(listing, groups=[of_rows[row] for row in listing.rows or range(count)])
    return dataset_of(listing, IN_MEMORY, labelled=labelled, reporter=reporter)


def _listed(values: Any) -> list[Any] | None:
    """Return the values of a list, an array, a column or a generator; None if there are none."""
    if values is None:
        return None
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _names(class_names: Any) -> tuple[str, ...] | None:
    """Return names of classes as texts; raise DataError for what has no order or is one text."""
    if isinstance(class_names, (str, set, frozenset, Mapping)):
        raise DataError(
            f"class_names are a {type(class_names).__name__}: give a list, the names of the labels 0, 1, 2 …"
        )
    return None if class_names is None else tuple(map(str, class_names))


def _refuse_columns(data: Any, options: ReadOptions) -> None:
    """Raise DataError for tables of other packages, and if the options name columns of data without columns."""
    if hasattr(data, "to_pandas") and not hasattr(data, "iloc") and not _is_hugging_face(data):
        raise DataError(f"data is {_kind(data)} of {type(data).__module__.split('.')[0]}: give data.to_pandas().")
    if _is_pandas(data) or _is_hugging_face(data):
        return
    if options.ignored:
        raise DataError(f"ignore={options.ignored[0]!r}: {_kind(data)} is not a table. Leave it out.")
    if not options.labelled:
        return
    if options.label is not None:
        raise DataError(f"label={options.label!r}: {_kind(data)} has no such column. Give its labels as `labels`.")
    for name, column in (("text", options.text), ("group", options.group), ("id", options.id)):
        if column is not None:
            raise DataError(f"{name}={column!r}: {_kind(data)} has no such column. Leave it out.")


def holds_labels(data: Any) -> bool:
    """Whether these samples come with their labels."""
    return isinstance(data, (str, os.PathLike)) or _is_hugging_face(data) or _is_torch(data)


def labels_of(labels: Any) -> Any:
    """Return labels as a list or a NumPy array."""
    if labels is None:
        raise DataError("labels are missing: give one per sample.")
    if isinstance(labels, (set, frozenset, Mapping)) or not hasattr(labels, "__iter__"):
        raise DataError(f"labels are a {type(labels).__name__}: give a list or an array, with one per sample.")
    if hasattr(labels, "detach"):
        return _from_tensor(labels)
    return np.asarray(_without_gaps(labels)) if hasattr(labels, "shape") else list(labels)


def _is_hugging_face(data: Any) -> bool:
    # By its module: the package is not a dependency.
    return type(data).__module__.split(".")[0] == "datasets"


def _is_torch(data: Any) -> bool:
    from torch.utils.data import Dataset

    return isinstance(data, Dataset)


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "columns") and not _is_hugging_face(data)


def _kind(data: Any) -> str:
    return f"the path {str(data)[:200]}" if isinstance(data, (str, os.PathLike)) else f"a {type(data).__name__}"


def _list_hugging_face(data: Any, options: ReadOptions) -> Listing:
    """List a `Dataset` or a `DatasetDict` from its Arrow table in memory; no image is decoded."""
    parts: list[tuple[Part | None, Any]] = [(None, data)]
    if hasattr(data, "keys"):  # a DatasetDict
        parts = [(part_named(name, IN_MEMORY), data[name]) for name in data]
    for part, piece in parts:
        if not hasattr(piece, "with_format") or not hasattr(piece, "__len__"):
            raise DataError(
                f"data is a {type(piece).__name__}, which can be read only once: load it without streaming."
            )
        if len(piece) == 0:
            raise DataError(f"data holds no sample{f' in {part}' if part else ''}.")
    if not parts:
        raise DataError("data holds no sample.")
    tables = in_order(((part, piece.with_format("arrow")[:]) for part, piece in parts), IN_MEMORY)
    return listing_of_tables(IN_MEMORY, tables, parts[0][1].features.to_dict(), options, follow_paths=True)


def _list_pandas(data: Any, labels: Any, ids: Sequence[Any] | None, options: ReadOptions) -> Listing:
    """List a pandas table as one in a file; its labels may be given separately."""
    if options.labelled and labels is not None and options.label is not None:
        raise DataError(f"labels are given, and so is label={options.label!r}: leave one of them out.")
    given = None
    if options.labelled and labels is not None:
        given = one_label_each(labels_of(labels), data, IN_MEMORY)
    if ids is not None and options.id is not None:
        raise DataError(f"ids are given, and so is id={options.id!r}: leave one of them out.")
    table = columns_of(data)
    table = {name: table[name] for name in without(options.ignored, table, IN_MEMORY)}
    if ids is None and options.id is None and find_column(ID_COLUMNS, table) is None:
        ids = _index_ids(data)
    if ids is not None:
        others = {name: values for name, values in table.items() if find_column(ID_COLUMNS, [name]) is None}
        table = {**others, ID_COLUMNS[0]: np.array(_ids(ids, len(data)))}
    return listing_of(table, IN_MEMORY, Path(), options, labels=given)


def _require_same_order(data: Any, given: Mapping[str, Any]) -> None:
    """Raise DataError if values of samples are a pandas column with the index of the data in another order."""
    for name, values in given.items():
        if not (hasattr(data, "iloc") and hasattr(values, "iloc")):
            continue
        rows, others = data.index.tolist(), values.index.tolist()
        if rows == others or sorted(map(repr, rows)) != sorted(map(repr, others)):
            continue  # an index that has nothing to do with the other: rows count
        here, there = next(pair for pair in zip(rows, others, strict=True) if pair[0] != pair[1])
        raise DataError(
            f"{name} have the index of the data in another order: {there!r:.80} is where the data have {here!r:.80}. "
            f"Give them in its order: {name}.loc[data.index]."
        )


def _index_ids(data: Any) -> list[str] | None:
    """Return the index of a pandas table or column as ids; None if it counts the rows, or some values are equal."""
    if not hasattr(data, "iloc"):
        return None
    names = [str(value) for value in data.index.tolist()]
    counts = names == [str(row) for row in range(len(names))]
    return None if counts or "" in names or len(set(names)) < len(names) else names


def columns_of(data: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a pandas table by name."""
    names = [str(name) for name in data.columns]
    require_different(names, IN_MEMORY)
    return {name: np.asarray(_without_gaps(data[key])) for name, key in zip(names, data.columns, strict=True)}


def _without_gaps(values: Any) -> Any:
    """Replace the missing values of a pandas table or column by None; return anything else unchanged."""
    if not hasattr(values, "notna") or np.asarray(values.notna()).all():
        return values
    return values.astype(object).where(values.notna(), None)


def _gather(dataset: Any, labelled: bool) -> tuple[list[Any], list[Any] | None, tuple[str, ...] | None]:
    """Return the samples and labels of a torch dataset, and class names if it has `classes` as in torchvision."""
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(f"data is a {type(dataset).__name__} without a length or indices: give a dataset with both.")
    images, labels = [], []
    for row in range(len(dataset)):
        sample = dataset[row]
        pair = isinstance(sample, (tuple, list)) and len(sample) > 1
        if labelled and not pair:
            raise DataError(f"data[{row}] is a {type(sample).__name__}: it must be a pair of an image and its label.")
        images.append(sample[0] if isinstance(sample, (tuple, list)) else sample)
        labels.append(sample[1] if pair else None)
    names = getattr(dataset, "classes", None)
    named = isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names)
    return images, labels if labelled else None, tuple(names) if names and named else None


def _list_arrays(data: Any, labels: Any, ids: Sequence[Any] | None, class_names: tuple[str, ...] | None) -> Listing:
    if isinstance(data, (list, tuple)) and data and all(isinstance(each, Image.Image) for each in data):
        given = [None] * len(data) if labels is None else one_label_each(labels, data, IN_MEMORY)
        return _list_images(data, given, _ids(ids, len(data)), class_names)
    if (texts := _texts(data)) is not None:
        given = [None] * len(texts) if labels is None else one_label_each(labels, texts, IN_MEMORY)
        empty = sum(not text.strip() for text in texts)
        notes = (f"{empty:,} of {len(texts):,} texts are empty.",) if empty else ()
        names = _ids(ids if ids is not None else _index_ids(data), len(texts))
        return Listing(ids=names, labels=given, texts=texts, class_names=class_names, notes=notes)
    array = _array_of(data)
    count = len(array) if array.ndim else 0
    if array.ndim and count == 0:
        raise DataError(f"{IN_MEMORY} holds no sample: its shape is {array.shape}.")
    pieces = [labels] if labels is not None else None
    return listing_of_arrays([array], pieces, where=IN_MEMORY, ids=_ids(ids, count), class_names=class_names)


def _list_images(
    images: Sequence[Image.Image],
    labels: Sequence[Label | None],
    ids: Sequence[str],
    class_names: tuple[str, ...] | None,
) -> Listing:
    """List images of Pillow as the files that they would be; those of damaged files are read here, and left out."""
    files: list[bytes] = []
    rows: list[int] = []
    problems: list[Problem] = []
    for row, image in enumerate(images):
        try:
            files.append(_as_png(image))
            rows.append(row)
        except Exception as error:  # decoders raise anything on damaged bytes
            problems.append(Problem(id=ids[row], reason=reason_of(error)))
    return Listing(
        ids=[ids[row] for row in rows],
        labels=[labels[row] for row in rows],
        rows=rows,
        files=files,
        class_names=class_names,
        problems=tuple(problems),
    )


def _texts(data: Any) -> list[str] | None:
    """Return a list, an array or a pandas column of texts, in which None is an empty one; None for other data."""
    if not isinstance(data, (list, tuple)):
        if getattr(data, "ndim", None) != 1 or not hasattr(data, "tolist") or hasattr(data, "detach"):
            return None
        data = _without_gaps(data).tolist()
    texts = any(isinstance(each, str) for each in data) and all(each is None or isinstance(each, str) for each in data)
    return [as_text(each) for each in data] if texts else None


def _array_of(data: Any) -> NDArray[Any]:
    """Convert an array, a tensor, or a list of them."""
    if data is None:
        raise DataError("data is None: give images, features, a dataset or a path.")
    if isinstance(data, (list, tuple)):
        arrays = [_array_of(each) for each in data]
        shapes = [each.shape for each in arrays]
        different = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
        if different is not None:
            raise DataError(
                f"data: sample {different} has shape {shapes[different]}, and the first one {shapes[0]}. Make them "
                "alike, or give Pillow images, which are resized."
            )
        return np.stack(arrays) if arrays else np.empty((0,))
    if hasattr(data, "detach"):
        return _from_tensor(data)
    array = np.ma.filled(data.astype(np.float64), np.nan) if np.ma.isMaskedArray(data) else np.asarray(data)
    if array.dtype == object:
        raise DataError(
            f"data is a {type(data).__name__} of objects that are not numbers: {SHAPES}. Or give a dataset or a path."
        )
    return array


def _from_tensor(data: Any) -> NDArray[Any]:
    data = data.detach().cpu()
    array: NDArray[Any] = (data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy()
    return array


def _ids(ids: Sequence[Any] | None, count: int) -> list[str]:
    if ids is not None and len(ids) != count:
        raise DataError(f"there are {count:,} samples and {len(ids):,} ids: give one id per sample, or none.")
    return given_ids(ids, IN_MEMORY) if ids is not None else [str(row) for row in range(count)]


def _as_png(image: Image.Image) -> bytes:
    """Encode an image losslessly and fast, upright and with the pixels that its file would be decoded to."""
    content = io.BytesIO()
    upright = ImageOps.exif_transpose(image)
    if upright.mode not in PNG_MODES:
        scaled = eight_bits(upright)
        mode = "RGBA" if upright.mode in TRANSPARENT_MODES else "RGB"
        upright = upright.convert(mode) if scaled is upright else scaled
    upright.save(content, "PNG", compress_level=1)
    return content.getvalue()


def arrow_table(own: OwnDataset) -> Any:
    """Return texts or rows of a table, with ids, labels and parts, as an Arrow table.

    In a Parquet file in a folder, it is read by `open_dataset(folder, text=own.text_column or "text")`, or with
    `columns` and `categories` of the table, and has the same fingerprint.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {"id": list(own.ids)}
    if own.texts is not None:
        columns[own.text_column or "text"] = list(own.texts)
    else:
        assert own.table is not None, "texts or a table"
        columns |= dict(zip(own.table.number_columns, own.table.numbers.T, strict=True))
        columns |= {name: pa.array(values, pa.large_string()) for name, values in own.table.by_category.items()}
    columns["label"] = own.labels
    columns |= {"split": list(own.parts)} if own.parts is not None else {}
    described = {"info": {"features": {"label": {"names": list(own.class_names)}}}}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(described)})
