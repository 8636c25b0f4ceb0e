"""A Hugging Face dataset on disk: what `save_to_disk` writes, or Parquet files as the Hub has them.

Read through pyarrow, without the package `datasets`. Images are those of a column of pictures with their bytes, or of a
column of paths below the folder; else every column of numbers beside the label is a feature. Text is not trained on
here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from tnlpad.data.errors import DataError
from tnlpad.data.files import readable
from tnlpad.data.listing import PARTS, Encoded, Listing, Part, label_as_given, part_named, require_unique
from tnlpad.data.manifest import (
    ID_COLUMNS,
    OTHER_LABELS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    arrow_columns,
    column_called,
    label_column,
    listed,
    listing_of,
    parquet_file,
    parquet_table,
)

DICTIONARY, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
MOST_JSON_BYTES = 1 << 26


def is_hugging_face(folder: Path) -> bool:
    """Whether this is such a folder."""
    return any((folder / name).is_file() for name in (DICTIONARY, STATE)) or bool(_parquet_files(folder))


def read_hugging_face(folder: Path, *, label: str | None = None, labelled: bool = True) -> Listing:
    """The samples of every part, those to train on first.

    Args:
        folder: Where they lie.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; without, they are not read either.
    """
    tables = dict(_tables(folder))
    if not tables:
        raise DataError(f"{folder} holds no table of a dataset.")
    order: list[Part | None] = ["train", None, "validation", "test"]
    pieces = {part: tables[part] for part in order if part in tables}
    features = _features(folder, next(iter(pieces.values())))
    return listing_of_tables(folder, pieces, features, label=label, labelled=labelled)


def read_picture_table(path: Path, *, label: str | None = None, labelled: bool = True) -> Listing | None:
    """The samples of one Parquet file that has the pictures within; None if it has no column of them."""
    if not any(_is_image(field.type) for field in parquet_file(path).schema_arrow):
        return None
    table = parquet_table(path)
    return listing_of_tables(path, _by_part(table, path), _described(table) or {}, label=label, labelled=labelled)


def _by_part(table: Any, where: Path) -> dict[Part | None, Any]:
    """The rows of each part that a column names."""
    import pyarrow as pa

    split = column_called(SPLIT_COLUMNS, table.column_names)
    if split is None:
        return {None: table}
    parts = [part_named(value, where) for value in table.column(split).to_pylist()]
    return {part: table.filter(pa.array([each == part for each in parts])) for part in sorted(set(parts))}


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
        found: dict[Part, list[Any]] = {}
        for path in _parquet_files(folder):
            word = path.name.split("-")[0].split(".")[0].lower()
            found.setdefault(PARTS.get(word, "train"), []).append(parquet_table(path))
        for part, tables in found.items():
            yield (part if len(found) > 1 else None), _joined(tables, folder)


def _joined(tables: Sequence[Any], folder: Path) -> Any:
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{folder}: its tables have different columns ({error}). Name one of the files if they are different data."
        ) from error


def _arrow_table(folder: Path) -> Any:
    """The files that `state.json` lists, mapped into memory and not copied."""
    import pyarrow as pa

    files = _json(folder / STATE).get("_data_files")
    names = [each.get("filename") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    tables = []
    for name in names:
        path = folder / _plain(name, folder / STATE)
        with readable(path):
            try:
                with pa.memory_map(str(path)) as source:
                    tables.append(pa.ipc.open_stream(source).read_all())
            except pa.ArrowException as error:
                raise DataError(f"{path} cannot be read as Arrow: {error}.") from error
    if not tables:
        raise DataError(f"{folder / STATE} lists no files of data.")
    if (folder / "indices.arrow").exists() or _json(folder / STATE).get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows. Save it with flatten_indices() first.")
    return _joined(tables, folder)


def _parquet_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.parquet"), *folder.glob("data/*.parquet")])


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


def listing_of_tables(
    folder: Path,
    pieces: Mapping[Part | None, Any],
    features: Mapping[str, Any],
    *,
    follow_paths: bool = False,
    label: str | None = None,
    labelled: bool = True,
) -> Listing:
    """The samples of tables that are already open.

    Args:
        folder: What messages call them.
        pieces: A table of each part, or one of no part.
        features: What the columns mean, as `datasets` writes it.
        follow_paths: Whether a picture without bytes is read from its path, which may lie anywhere.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; a column of them is ignored otherwise.
    """
    table = _joined(list(pieces.values()), folder)
    parts = None if None in pieces else [part or "train" for part, each in pieces.items() for _ in range(len(each))]
    ids = [f"{part}/{row}" if part else str(row) for part, each in pieces.items() for row in range(len(each))]
    image = next((name for name in table.column_names if _is_image(table.schema.field(name).type)), None)
    others = [name for name in table.column_names if name != image]
    classes = label_column(label, others, folder, labelled=labelled and image is not None)  # text is told of first
    names = _class_names(features, classes)
    if image is None:
        return _without_pictures(folder, table, ids, parts, names, label=label, classes=classes, labelled=labelled)
    given = column_called(ID_COLUMNS, [name for name in others if name != classes])
    if given is not None:
        ids = [str(value) for value in table.column(given).to_pylist()]
        require_unique(ids, folder)
    values = table.column(classes).to_pylist() if classes is not None and labelled else [None] * len(ids)
    unused = [name for name in others if name not in (classes, given, *SPLIT_COLUMNS, *OTHER_LABELS)]
    note = f"pictures are those of the column {image!r}; other columns are not looked at: {listed(unused)}."
    return Listing(
        ids=ids,
        labels=[_label(value, names, folder) for value in values],
        parts=parts,
        files=Pictures(table.column(image), follow_paths),
        class_names=names,
        notes=(note,) if unused else (),
    )


def _without_pictures(
    folder: Path,
    table: Any,
    ids: Sequence[str],
    parts: Sequence[Part] | None,
    names: tuple[str, ...] | None,
    *,
    label: str | None,
    classes: str | None,
    labelled: bool,
) -> Listing:
    columns = arrow_columns(table)
    texts = [name for name, values in columns.items() if name != classes and _is_text(values)]
    if "text" in texts:
        raise DataError(f"{folder} holds text, which this command does not train on: see the guide for Transformers.")
    if column_called((*ID_COLUMNS, *PATH_COLUMNS), columns) is None:
        columns["id"] = list(ids)
    if parts is not None:
        columns[column_called(SPLIT_COLUMNS, columns) or "split"] = list(parts)
    listing = listing_of(columns, folder / "table", label=label, labelled=labelled)
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


def _is_image(kind: Any) -> bool:
    from pyarrow import types

    if types.is_binary(kind) or types.is_large_binary(kind):
        return True
    return bool(types.is_struct(kind)) and kind.get_field_index("bytes") >= 0


def _is_text(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, str) for value in values[:100])


def _class_names(features: Mapping[str, Any], label: str | None) -> tuple[str, ...] | None:
    described = features.get(label) if label is not None else None
    names = described.get("names") if isinstance(described, dict) else None
    if isinstance(names, dict):  # as some versions write it: {"class_label": {"names": {"0": "cat"}}}
        names = list(names.values())
    return tuple(str(name) for name in names) if isinstance(names, list) and names else None


def _label(value: Any, names: tuple[str, ...] | None, folder: Path) -> str | int | None:
    """Where numbers stand for names, −1 is how an unknown label is written."""
    label = label_as_given(value, folder)
    return None if names is not None and label == -1 else label


def _plain(name: Any, where: Path) -> str:
    """A name from a file must not lead out of its folder."""
    if not isinstance(name, str) or not name or name in (".", "..") or any(c in name for c in "/\\\0:"):
        raise DataError(f"{where}: {str(name)[:80]!r} is not the name of a file in its folder.")
    return name


def _json(path: Path) -> dict[str, Any]:
    from tnlpad.data.files import read_bounded

    try:
        value = json.loads(read_bounded(path, MOST_JSON_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is not a JSON object.")
    return value
