"""Tables of Arrow whose rows are samples: a column of pictures with their bytes, of paths, or columns of numbers.

A Hugging Face dataset on disk: what `save_to_disk` writes, or Parquet files as the Hub has them.

Read through pyarrow, without the package `datasets`. Images are those of a column of pictures with their bytes, or of a
column of paths below the folder; else every column of numbers beside the label is a feature. Text is not trained on
here.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from tnlpad.data.files import read_bounded, readable_as
from tnlpad.data.own.columns import (
    ID_COLUMNS,
    OTHER_LABELS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    column_called,
    label_column,
    listed,
)
from tnlpad.data.own.dataset import PARTS, Encoded, Listing, Part, given_ids, part_named
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.tables import arrow_columns, is_bytes, joined, parquet_file, parquet_table, sound, values_of
from tnlpad.errors import DataError

Pieces = Mapping[Part | None, Any]  # a table of each part, or one of no part
ORDER: tuple[Part | None, ...] = ("train", None, "validation", "test")


def in_order(tables: Iterable[tuple[Part | None, Any]], where: Path) -> Pieces:
    """The tables of each part as one, those to train on first."""
    found: dict[Part | None, list[Any]] = {}
    for part, table in tables:
        found.setdefault(part, []).append(table)
    return {part: joined(found[part], where) for part in ORDER if part in found}


def listing_of_tables(
    folder: Path,
    pieces: Pieces,
    features: Mapping[str, Any],
    *,
    follow_paths: bool = False,
    label: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
) -> Listing:
    """The samples of tables that are already open.

    Args:
        folder: What messages call them.
        pieces: The tables.
        features: What the columns mean, as `datasets` writes it.
        follow_paths: Whether a picture without bytes is read from its path, which may lie anywhere.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; a column of them is ignored otherwise.
        columns: The features to take, whatever else there is; all that there are when not given.
    """
    table = joined(list(pieces.values()), folder)
    image = picture_column(table.schema, label, folder) if not columns else None
    others = [name for name in table.column_names if name != image]
    classes = label_column(label, others, folder, labelled=labelled and image is not None)  # text is told of first
    names = _class_names(features, classes)
    if image is None:
        return _without_pictures(
            folder, table, pieces, names, label=label, classes=classes, labelled=labelled, columns=columns
        )
    free = [name for name in others if name != classes]
    sample, split = (column_called(known, free) for known in (ID_COLUMNS, SPLIT_COLUMNS))
    if None in pieces and split is not None and labelled:
        pieces = _by_part(table, split, folder)
        table = joined(list(pieces.values()), folder)
    ids = _ids(pieces) if sample is None else given_ids(values_of(table, sample, folder), folder, must_differ=labelled)
    values = values_of(table, classes, folder) if classes is not None and labelled else [None] * len(ids)
    kept = [name for name in free if name not in (sample, split)]
    unused = [name for name in kept if name not in OTHER_LABELS]
    note = f"pictures are those of the column {image!r}; other columns are not looked at: {listed(unused)}."
    return Listing(
        ids=ids,
        labels=[_label(value, names, folder) for value in values],
        parts=_parts(pieces),
        files=Pictures(table.column(image), follow_paths),
        class_names=names,
        notes=(note,) if unused else (),
        further=table.select(kept) if kept else None,
        picture_column=image,
    )


def picture_column(schema: Any, label: str | None, where: Path) -> str | None:
    """The first column of pictures: bytes, plain or as `datasets` keeps them.

    Some programs write text as plain bytes, so a column with the name of labels, ids, parts or paths is none.
    """
    classes = label_column(label, schema.names, where, labelled=False)
    texts = [classes, *(column_called(known, schema.names) for known in (ID_COLUMNS, SPLIT_COLUMNS, PATH_COLUMNS))]
    for field in schema:
        if (_with_bytes(field.type) and field.name != classes) or (is_bytes(field.type) and field.name not in texts):
            return str(field.name)
    return None


def _with_bytes(kind: Any) -> bool:
    from pyarrow import types

    place = kind.get_field_index("bytes") if types.is_struct(kind) else -1
    return place >= 0 and is_bytes(kind.field(place).type)


def _by_part(table: Any, split: str, where: Path) -> Pieces:
    """The rows of each part that a column names."""
    import pyarrow as pa

    parts = [part_named(value, where) for value in values_of(table, split, where)]
    return {part: table.filter(pa.array([each == part for each in parts])) for part in sorted(set(parts))}


def _ids(pieces: Pieces) -> list[str]:
    return [f"{part}/{row}" if part else str(row) for part, each in pieces.items() for row in range(len(each))]


def _parts(pieces: Pieces) -> list[Part] | None:
    if None in pieces:
        return None
    return [part for part, each in pieces.items() if part is not None for _ in range(len(each))]


def _without_pictures(
    folder: Path,
    table: Any,
    pieces: Pieces,
    names: tuple[str, ...] | None,
    *,
    label: str | None,
    classes: str | None,
    labelled: bool,
    columns: Sequence[str],
) -> Listing:
    found = arrow_columns(table, folder)
    if not columns and classes != "text" and _is_text(found.get("text")):
        raise DataError(f"{folder} holds text, which this command does not train on: see examples/text.py.")
    listing = listing_of(
        found,
        folder,
        folder,
        label=label,
        labelled=labelled,
        columns=columns,
        ids=_ids(pieces),
        parts=_parts(pieces),
    )
    return replace(listing, labels=[_label(value, names, folder) for value in listing.labels], class_names=names)


class Pictures(Sequence[Encoded]):
    """The bytes of a column of pictures, or where asked for their paths, each fetched when it is asked for."""

    def __init__(self, column: Any, follow_paths: bool = False) -> None:
        self.column, self.follow_paths = column, follow_paths

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> Encoded: ...

    @overload
    def __getitem__(self, place: slice) -> list[Encoded]: ...

    def __getitem__(self, place: int | slice) -> Encoded | list[Encoded]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        value = self.column[place].as_py()
        if value is None or isinstance(value, bytes):
            return value or b""
        path = value.get("path") if self.follow_paths else None
        return value.get("bytes") or path or b""


def _is_text(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, str) for value in values[:100])


def _class_names(features: Mapping[str, Any], label: str | None) -> tuple[str, ...] | None:
    described = features.get(label) if label is not None else None
    names = described.get("names") if isinstance(described, dict) else None
    if isinstance(names, dict):  # as some versions write it: {"class_label": {"names": {"0": "cat"}}}
        names = list(names.values())
    return tuple(str(name) for name in names) if isinstance(names, list) and names else None


def _label(value: Any, names: tuple[str, ...] | None, folder: Path) -> Label | None:
    """Where numbers stand for names, −1 is how an unknown label is written."""
    label = label_as_given(value, folder)
    return None if names is not None and label == -1 else label


DICTIONARY, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
MAX_JSON_BYTES = 1 << 26


def is_hugging_face(folder: Path) -> bool:
    """Whether this is such a folder."""
    return any((folder / name).is_file() for name in (DICTIONARY, STATE)) or bool(_parquet_files(folder))


def read_hugging_face(
    folder: Path, *, label: str | None = None, labelled: bool = True, columns: Sequence[str] = ()
) -> Listing:
    """The samples of every part, those to train on first.

    Args:
        folder: Where they lie.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; without, they are not read either.
        columns: The features to take, whatever else there is; all that there are when not given.
    """
    pieces = in_order(_tables(folder), folder)
    if not pieces:
        raise DataError(f"{folder} holds no table of a dataset.")
    features = _features(folder, next(iter(pieces.values())))
    return listing_of_tables(folder, pieces, features, label=label, labelled=labelled, columns=columns)


def read_picture_table(path: Path, *, label: str | None = None, labelled: bool = True) -> Listing | None:
    """The samples of one Parquet file that has the pictures within; None if it has no column of them."""
    if picture_column(parquet_file(path).schema_arrow, label, path) is None:
        return None
    table = parquet_table(path)
    return listing_of_tables(path, {None: table}, _described(table) or {}, label=label, labelled=labelled)


def _tables(folder: Path) -> Iterator[tuple[Part | None, Any]]:
    if (folder / DICTIONARY).is_file():
        names = _json(folder / DICTIONARY).get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{folder / DICTIONARY} names no splits.")
        for name in names:
            yield part_named(name, folder / DICTIONARY), _arrow_table(folder / _plain(name, folder))
    elif (folder / STATE).is_file():
        yield None, _arrow_table(folder)
    else:
        files = _parquet_files(folder)
        several = len({_part_of(path) for path in files}) > 1
        for path in files:
            yield _part_of(path) if several else None, parquet_table(path)


def _part_of(path: Path) -> Part:
    """By the first word in a file's name that means a part, as in `train-00000-of-00002` and `mnist_test`."""
    words = re.split(r"[^a-z]+", path.stem.lower())
    return next((PARTS[word] for word in words if word in PARTS), "train")


def _arrow_table(folder: Path) -> Any:
    """The files that `state.json` lists, mapped into memory and not copied."""
    import pyarrow as pa

    files = _json(folder / STATE).get("_data_files")
    names = [each.get("filename") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    tables = []
    for name in names:
        path = folder / _plain(name, folder / STATE)
        with readable_as("Arrow", path), pa.memory_map(str(path)) as source:
            tables.append(sound(pa.ipc.open_stream(source).read_all(), path))
    if not tables:
        raise DataError(f"{folder / STATE} lists no files of data.")
    if (folder / "indices.arrow").exists() or _json(folder / STATE).get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows. Save it with flatten_indices() first.")
    return joined(tables, folder)


def _parquet_files(folder: Path) -> list[Path]:
    found = (path for pattern in ("*", "data/*") for path in folder.glob(pattern))
    return sorted(path for path in found if path.suffix.lower() == ".parquet")


def _described(table: Any) -> Mapping[str, Any] | None:
    """What the columns mean, if the table itself says so."""
    metadata = (table.schema.metadata or {}).get(b"huggingface")
    try:
        found = json.loads(metadata)["info"]["features"] if metadata else None
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _features(folder: Path, table: Any) -> Mapping[str, Any]:
    """The same, or from the file beside it."""
    found: Any = _described(table)
    for path in (folder / INFO, *sorted(folder.glob(f"*/{INFO}"))):
        if found is None and path.is_file():
            found = _json(path).get("features")
    return found if isinstance(found, dict) else {}


def _plain(name: Any, where: Path) -> str:
    """A name from a file must not lead out of its folder."""
    if not isinstance(name, str) or not name or name in (".", "..") or any(c in name for c in "/\\\0:"):
        raise DataError(f"{where}: {str(name)[:80]!r} is not the name of a file in its folder.")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_bounded(path, MAX_JSON_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is not a JSON object.")
    return value
