"""Read Hugging Face datasets on disk, as `save_to_disk` or the Hub writes them, and other Arrow tables of samples.

Read with pyarrow, without the package `datasets`. Images are a column of image bytes, or a column of paths below the
folder. Otherwise text, numbers and categories are taken as from any other table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from tnlpad.data.files import read_bounded, readable_as
from tnlpad.data.own.arrow_tables import (
    arrow_columns,
    is_bytes,
    joined,
    parquet_content,
    parquet_file,
    parquet_table,
    require_rows_fit,
    validated,
    values_of,
)
from tnlpad.data.own.columns import (
    ID_COLUMNS,
    OTHER_LABEL_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    find_column,
    id_column,
    label_column,
    listed,
    named_column,
    without,
)
from tnlpad.data.own.dataset import PARTS, Listing, Part, ReadOptions, given_ids, groups_of, part_named
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.selection import Encoded
from tnlpad.data.own.tables import CELL_BYTES, COPIES, ROW_BYTES, SMALLER_TABLE, valid_text
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json
from tnlpad.memory import require_memory

DICTIONARY, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
MAX_JSON_BYTES = 1 << 26
Pieces = Mapping[Part | None, Any]  # one table per part, or one without a part
ORDER: tuple[Part | None, ...] = ("train", None, "validation", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Arrow tables by part, training first.

    Args:
        pieces: The tables.
        features: Description of the columns, as `datasets` writes it; empty if there is none.
        names: Names of the parts as they were given.
    """

    pieces: Pieces
    features: Mapping[str, Any]
    names: Mapping[Part | None, str]


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder holds a Hugging Face dataset or Parquet files."""
    return is_saved_to_disk(folder) or bool(_parquet_files(folder))


def is_saved_to_disk(folder: Path) -> bool:
    """Whether a folder holds what `save_to_disk` writes."""
    return any((folder / name).is_file() for name in (DICTIONARY, STATE))


def read_dataset(path: Path) -> Dataset:
    """Read the tables of a dataset in a folder, or of a Parquet file."""
    if path.is_file():
        table = parquet_table(path)
        return Dataset(pieces={None: table}, features=_described(table) or {}, names={})
    pieces = in_order(_tables(path), path)
    if not pieces:
        raise DataError(f"{path} holds no table of a dataset.")
    features: Any = _described(next(iter(pieces.values())))
    for file in (path / INFO, *sorted(path.glob(f"*/{INFO}"))):
        if features is None and file.is_file():
            features = _json(file).get("features")
    return Dataset(
        pieces=pieces, features=features if isinstance(features, dict) else {}, names=_part_names(path, pieces)
    )


def _part_names(folder: Path, pieces: Pieces) -> dict[Part | None, str]:
    """Return the names of the parts as given; where several are joined, and elsewhere, the usual ones."""
    names: dict[Part | None, str] = {part: str(part) for part in pieces}
    if (folder / DICTIONARY).is_file():
        given = _split_names(folder)
        parts = [part_named(name, folder) for name in given]
        names |= {part: name for part, name in zip(parts, given, strict=True) if parts.count(part) == 1}
    return names


def read_hugging_face(folder: Path, options: ReadOptions = ReadOptions()) -> Listing:
    """List the samples of every part, training first."""
    dataset = read_dataset(folder)
    return listing_of_tables(folder, dataset.pieces, dataset.features, options)


def read_picture_table(path: Path, options: ReadOptions = ReadOptions()) -> Listing | None:
    """List the samples of a Parquet file with a column of image bytes; None if it has no such column."""
    import pyarrow as pa

    fields = parquet_file(path).schema_arrow
    kept = without(options.ignored, fields.names, path)
    if picture_column(pa.schema(map(fields.field, kept)), options.label, path) is None:
        return None
    table = parquet_table(path)
    return listing_of_tables(path, {None: table}, _described(table) or {}, options)


def in_order(tables: Iterable[tuple[Part | None, Any]], where: Path) -> Pieces:
    """Join the tables of each part, training first."""
    found: dict[Part | None, list[Any]] = {}
    for part, table in tables:
        found.setdefault(part, []).append(table)
    return {part: joined(found[part], where) for part in ORDER if part in found}


def listing_of_tables(
    where: Path,
    pieces: Pieces,
    features: Mapping[str, Any],
    options: ReadOptions = ReadOptions(),
    *,
    follow_paths: bool = False,
) -> Listing:
    """List the samples of Arrow tables.

    Args:
        where: Name of the tables in messages, and the folder of paths in them.
        pieces: The tables by part.
        features: Description of the columns, as `datasets` writes it.
        options: How to read them.
        follow_paths: Whether an image without bytes is read from its path, which may be anywhere.
    """
    labelled = options.labelled
    table = joined(list(pieces.values()), where)
    table = table.select(without(options.ignored, table.column_names, where))
    other = options.columns or options.text is not None
    image = picture_column(table.schema, options.label, where) if not other else None
    others = [name for name in table.column_names if name != image]
    label = label_column(options.label, others, where, labelled=labelled)
    names, rows = class_names_of(features, label), _rows(pieces)
    if image is None:
        found = listing_of(arrow_columns(table, where), where, where, options, ids=_ids(pieces), parts=_parts(pieces))
        return replace(
            found,
            labels=[_label(value, names, where) for value in found.labels],
            rows=[rows[place] for place in found.rows or ()],
            class_names=names,
        )
    group = named_column(options.group, "--group", others, where) if options.group and labelled else None
    given = id_column(options.id, others, where, labelled=labelled)
    free = [name for name in others if name not in (label, group)]
    sample, split = (
        find_column(known, [each for each in free if each != given]) for known in (ID_COLUMNS, SPLIT_COLUMNS)
    )
    sample = sample if given is None else given
    if None in pieces and split is not None and labelled:
        pieces, rows = _by_part(table, split, where)
        table = joined(list(pieces.values()), where)
    ids = _ids(pieces) if sample is None else given_ids(values_of(table, sample, where), where, must_differ=labelled)
    values = values_of(table, label, where) if label is not None and labelled else [None] * len(ids)
    kept = [name for name in free if name not in (sample, split)]
    unused = [name for name in kept if name not in OTHER_LABEL_COLUMNS]
    note = f"images are those of the column {image!r}; other columns are not used: {listed(unused)}."
    return Listing(
        ids=ids,
        labels=[_label(value, names, where) for value in values],
        rows=rows,
        parts=_parts(pieces),
        files=Pictures(table.column(image), follow_paths),
        class_names=names,
        notes=(note,) if unused else (),
        groups=groups_of(values_of(table, group, where)) if group is not None else None,
        further=table.select([*kept, group] if group is not None else kept) if kept or group is not None else None,
        picture_column=image,
    )


def picture_column(schema: Any, label: str | None, where: Path) -> str | None:
    """Return the first column of images: bytes, plain or in the struct of `datasets`.

    Some programs write text as plain bytes, so columns named as labels, ids, parts or paths do not count.
    """
    from pyarrow import types

    labels = label_column(label, schema.names, where, labelled=False)
    texts = [labels, *(find_column(known, schema.names) for known in (ID_COLUMNS, SPLIT_COLUMNS, PATH_COLUMNS))]
    for field in schema:
        place = field.type.get_field_index("bytes") if types.is_struct(field.type) else -1
        in_struct = place >= 0 and is_bytes(field.type.field(place).type)
        if (in_struct and field.name != labels) or (is_bytes(field.type) and field.name not in texts):
            return str(field.name)
    return None


def _by_part(table: Any, split: str, where: Path) -> tuple[Pieces, list[int]]:
    """Split the rows by a column that names the parts; return their row numbers as well, part by part."""
    parts = [part_named(value, where, split) for value in values_of(table, split, where)]
    rows = {part: [row for row, each in enumerate(parts) if each == part] for part in sorted(set(parts))}
    return {part: table.take(found) for part, found in rows.items()}, [row for found in rows.values() for row in found]


def _rows(pieces: Pieces) -> list[int]:
    return [row for each in pieces.values() for row in range(len(each))]


def _ids(pieces: Pieces) -> list[str]:
    return [f"{part}/{row}" if part else str(row) for part, each in pieces.items() for row in range(len(each))]


def _parts(pieces: Pieces) -> list[Part] | None:
    if None in pieces:
        return None
    return [part for part, each in pieces.items() if part is not None for _ in range(len(each))]


class Pictures(Sequence[Encoded]):
    """The images of an Arrow column as bytes or, with `follow_paths`, as paths; each is read when it is needed."""

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


def class_names_of(features: Mapping[str, Any], label: str | None) -> tuple[str, ...] | None:
    """Return the names of the classes that a description of columns has; None if it has none."""
    described = features.get(label) if label is not None else None
    names = described.get("names") if isinstance(described, dict) else None
    if isinstance(names, dict):  # as some versions write it: {"class_label": {"names": {"0": "cat"}}}
        names = list(names.values())
    return tuple(valid_text(str(name)) for name in names) if isinstance(names, list) and names else None


def _label(value: Any, names: tuple[str, ...] | None, where: Path) -> Label | None:
    """Return a label. With class names, −1 means that it is unknown."""
    label = label_as_given(value, where)
    return None if names is not None and label == -1 else label


def _tables(folder: Path) -> Iterator[tuple[Part | None, Any]]:
    if (folder / DICTIONARY).is_file():
        for name in _split_names(folder):
            yield part_named(name, folder / DICTIONARY), _arrow_table(folder / _file_name(name, folder))
    elif (folder / STATE).is_file():
        yield None, _arrow_table(folder)
    else:
        files = _parquet_files(folder)
        several = len({_part_of(path) for path in files}) > 1
        require_rows_fit(files, folder)
        for path in files:
            yield _part_of(path) if several else None, parquet_content(path)


def _split_names(folder: Path) -> list[str]:
    names = _json(folder / DICTIONARY).get("splits")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{folder / DICTIONARY} names no splits.")
    return names


def _part_of(path: Path) -> Part:
    """Return the part named by the first such word in a file name, as in `train-00000-of-00002` and `mnist_test`."""
    words = re.split(r"[^a-z]+", path.stem.lower())
    return next((PARTS[word] for word in words if word in PARTS), "train")


def _arrow_table(folder: Path) -> Any:
    """Map the files that `state.json` lists into memory; those that are compressed must fit into it."""
    import pyarrow as pa

    state = _json(folder / STATE)
    files = state.get("_data_files")
    names = [each.get("filename") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    tables: list[Any] = []
    rows, before = 0, pa.total_allocated_bytes()  # of memory; files that are mapped into it do not count
    for name in names:
        path = folder / _file_name(name, folder / STATE)
        with readable_as("Arrow", path), pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_stream(source)
            batches = []
            for batch in reader:
                batches.append(batch)
                rows += len(batch)
                content = before + COPIES * (pa.total_allocated_bytes() - before)
                needed = content + rows * (ROW_BYTES + CELL_BYTES * batch.num_columns)
                require_memory(needed, f"{folder} has {rows:,} rows or more. It", SMALLER_TABLE)
            tables.append(validated(pa.Table.from_batches(batches, reader.schema), path))
    if not tables:
        raise DataError(f"{folder / STATE} lists no files of data.")
    if (folder / "indices.arrow").exists() or state.get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows. Save it with flatten_indices() first.")
    return joined(tables, folder)


def _parquet_files(folder: Path) -> list[Path]:
    found = (path for pattern in ("*", "data/*") for path in folder.glob(pattern))
    return sorted(path for path in found if path.suffix.lower() == ".parquet")


def _described(table: Any) -> Mapping[str, Any] | None:
    """Return the description of the columns in the table's metadata, if there is one."""
    metadata = (table.schema.metadata or {}).get(b"huggingface")
    try:
        found = parse_json(metadata)["info"]["features"] if metadata else None
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _file_name(name: Any, where: Path) -> str:
    """Return a name from a file; raise DataError if it leads out of the folder."""
    if not isinstance(name, str) or not name or name in (".", "..") or any(c in name for c in "/\\\0:"):
        raise DataError(f"{where}: {str(name)[:80]!r} is not the name of a file in its folder.")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_bounded(path, MAX_JSON_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is not a JSON object.")
    return value
