"""Write cleaned Arrow tables: Parquet files, and Hugging Face datasets with their splits, features and class names.

A dataset that `save_to_disk` wrote is written so again if the package `datasets` is installed, and otherwise, like one
of Parquet files, as a folder of Parquet files as on the Hub. All columns keep their types.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnlpad.atomic_files import replacing
from tnlpad.data.own.arrow_tables import arrow_columns, joined, values_of
from tnlpad.data.own.columns import without
from tnlpad.data.own.dataset import Part
from tnlpad.data.own.hugging_face import Dataset, class_names_of, is_saved_to_disk, read_dataset
from tnlpad.data.own.manifest import Roles, roles_of
from tnlpad.suspects.clean import ORIGINAL, Cleaned
from tnlpad.suspects.cleaned_rows import CleanedRows, LabelValues, Source, columns_to_add, is_divided
from tnlpad.suspects.cleaned_tables import CleanedTable

TEXT_FEATURE = {"dtype": "string", "_type": "Value"}


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanedDataset:
    """A dataset with the fate of its rows.

    Args:
        dataset: The original tables.
        roles: Columns by role.
        values: Values of the label column.
        staying: The rows that stay, by part.
    """

    dataset: Dataset
    roles: Roles
    values: LabelValues
    staying: Mapping[Part | None, Sequence[tuple[int, Cleaned | None]]]

    @property
    def label(self) -> str:
        assert self.roles.label is not None, "the run was trained on it"
        return self.roles.label


def cleaned_dataset(source: Source, kept: Sequence[Cleaned], used: Sequence[str]) -> CleanedDataset:
    """Read a Parquet file, a folder of them, or a Hugging Face dataset again and decide about the rows."""
    dataset = read_dataset(source.path)
    table = joined(list(dataset.pieces.values()), source.path)
    columns = dict.fromkeys(without(source.options.ignored, table.column_names, source.path), ())
    roles = roles_of(columns, source.path, source.options)
    if source.pictures:
        roles = replace(roles, path=None)  # which does not name them
    assert roles.label is not None, "the run was trained on it"
    # In a table without pictures, whole numbers are classes of their own.
    named = source.path.is_dir() or source.pictures
    names = class_names_of(dataset.features, roles.label) if named else None
    rows = CleanedRows(source, kept, used, by_part=None not in dataset.pieces)
    return CleanedDataset(
        dataset=dataset,
        roles=roles,
        values=LabelValues(values_of(table, roles.label, source.path), source.path, names),
        staying={part: list(rows.staying(range(len(piece)), part)) for part, piece in dataset.pieces.items()},
    )


def write_parquet(out: Path, source: Source, found: CleanedDataset) -> None:
    """Write all parts into one Parquet file; labels are the names of classes where a reader would not look for them."""
    import pyarrow.parquet as pq

    samples = (sample for staying in found.staying.values() for _, sample in staying)
    divided = len(found.staying) > 1 or is_divided(samples)
    tables = _tables(found, with_split=divided, by_name=not source.pictures)
    with replacing(out) as file:
        pq.write_table(joined(list(tables.values()), source.path), file)


def write_dataset_folder(folder: Path, source: Source, found: CleanedDataset) -> None:
    """Write into an empty folder as `save_to_disk` or the Hugging Face Hub does."""
    tables = _tables(found)
    if is_saved_to_disk(source.path) and _save_to_disk(folder, tables, found.dataset.names):
        return
    _write_hub_files(folder, tables)


def as_text_table(source: Source, found: CleanedDataset) -> CleanedTable:
    """Return the rows of all parts as a table whose labels are the names of the classes."""
    pieces = found.dataset.pieces
    columns = dict(arrow_columns(joined(list(pieces.values()), source.path), source.path))
    columns[found.label] = [found.values.name(value) for value in columns[found.label]]
    ids: list[str] = []
    staying: list[tuple[int, Cleaned | None]] = []
    for part, piece in pieces.items():
        staying += [(len(ids) + row, sample) for row, sample in found.staying[part]]
        ids += [_default_id(part, row) for row in range(len(piece))]
    for place, sample in staying:
        ids[place] = ids[place] if sample is None else sample.id
    return CleanedTable(
        table=columns,
        roles=found.roles,
        values=LabelValues(columns[found.label], source.path),
        ids=ids,
        staying=staying,
    )


def _default_id(part: Part | None, row: int) -> str:
    return str(row) if part is None else f"{part}/{row}"


def _tables(found: CleanedDataset, *, with_split: bool = False, by_name: bool = False) -> dict[Part | None, Any]:
    """Return the cleaned table of each part, with a description of its columns.

    Args:
        found: The dataset.
        with_split: Whether to add a column with the parts.
        by_name: Whether to write the names of classes instead of their numbers.
    """
    by_name = by_name and found.values.class_names is not None
    tables = {part: _cleaned(found, part, with_split, by_name) for part in found.dataset.pieces}
    if len({table.schema.field(found.label).type for table in tables.values()}) > 1:  # one has a new class
        tables = {part: _with_names(found, table) for part, table in tables.items()}
    features = {} if by_name else _features(found, next(iter(tables.values())).column_names)
    described = {b"huggingface": json.dumps({"info": {"features": features}}).encode()} if features else {}
    return {part: table.replace_schema_metadata(_other_metadata(table) | described) for part, table in tables.items()}


def _other_metadata(table: Any) -> dict[bytes, bytes]:
    return {key: value for key, value in (table.schema.metadata or {}).items() if key != b"huggingface"}


def _cleaned(found: CleanedDataset, part: Part | None, with_split: bool, by_name: bool) -> Any:
    import pyarrow as pa

    staying, label, roles = found.staying[part], found.label, found.roles
    table = found.dataset.pieces[part].take(pa.array([row for row, _ in staying], pa.int64()))
    kind, values = table.schema.field(label).type, table.column(label).to_pylist()
    pairs = [(value, sample) for value, (_, sample) in zip(values, staying, strict=True)]
    added = columns_to_add(
        table.column_names,
        found.values.where,
        ids=roles.id is None and not _named_by_path(found),
        split=with_split and roles.split is None,
    )
    columns = {label: [found.values.corrected(*pair) for pair in pairs]}
    if ORIGINAL in added:
        columns[ORIGINAL] = [found.values.original(*pair) for pair in pairs]
    for name, labels in columns.items():
        names = [found.values.name(each) for each in labels]
        table = _with_column(table, name, pa.array(names, pa.string()) if by_name else _typed(labels, kind, names))
    if "id" in added:
        ids = [_default_id(part, row) if sample is None else sample.id for row, sample in staying]
        table = table.append_column(added["id"], pa.array(ids, pa.string()))
    if "split" in added:
        parts = [part if sample is None else sample.split for _, sample in staying]
        table = table.append_column(added["split"], pa.array(parts, pa.string()))
    return table


def _named_by_path(found: CleanedDataset) -> bool:
    """Whether each sample has its path as its id; where paths repeat, a number follows."""
    if found.roles.path is None:
        return False
    paths = {part: piece.column(found.roles.path).to_pylist() for part, piece in found.dataset.pieces.items()}
    staying = ((part, row, sample) for part, rows in found.staying.items() for row, sample in rows)
    return all(sample is None or sample.id == str(paths[part][row]) for part, row, sample in staying)


def _with_names(found: CleanedDataset, table: Any) -> Any:
    """Return the table with the names of the classes as labels."""
    import pyarrow as pa

    names = [found.values.name(value) for value in table.column(found.label).to_pylist()]
    return _with_column(table, found.label, pa.array(names, pa.string()))


def _with_column(table: Any, name: str, column: Any) -> Any:
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def _typed(values: Sequence[Any], kind: Any, names: Sequence[str | None]) -> Any:
    """Return labels in the type that they had, or the names of their classes if a new one needs it."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array(names, pa.string())


def _features(found: CleanedDataset, columns: Sequence[str]) -> dict[str, Any]:
    """Return the description of the columns with the names of new classes; nothing if the data have none."""
    features = {name: each for name, each in found.dataset.features.items() if name in columns}
    if not features:
        return {}
    if found.values.class_names is not None:
        features[found.label] = {"names": found.values.class_names, "_type": "ClassLabel"}
    before = next(iter(found.dataset.pieces.values())).column_names
    added = {name: TEXT_FEATURE for name in columns if name not in before}
    added[ORIGINAL] = features.get(found.label, TEXT_FEATURE)
    return features | {name: each for name, each in added.items() if name not in features}


def _save_to_disk(folder: Path, tables: Mapping[Part | None, Any], names: Mapping[Part | None, str]) -> bool:
    """Write the layout of `save_to_disk`; return False if the package `datasets` is not installed."""
    try:
        import datasets
    except ImportError:
        return False
    silent = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    filled = {part: table for part, table in tables.items() if len(table)} or tables  # of others it writes no file
    try:
        parts = {part: datasets.Dataset(datasets.table.InMemoryTable(table)) for part, table in filled.items()}
        whole = parts[None] if None in parts else datasets.DatasetDict({names[part]: parts[part] for part in parts})
        whole.save_to_disk(str(folder))
    finally:
        if not silent:
            datasets.enable_progress_bars()
    return True


def _write_hub_files(folder: Path, tables: Mapping[Part | None, Any]) -> None:
    import pyarrow.parquet as pq

    (folder / "data").mkdir()
    for part, table in tables.items():
        pq.write_table(table, folder / "data" / f"{part or 'train'}-00000-of-00001.parquet")
