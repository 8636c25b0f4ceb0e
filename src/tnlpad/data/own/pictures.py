"""Tables of Arrow whose rows are samples: a column of pictures with their bytes, of paths, or columns of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import (
    ID_COLUMNS,
    OTHER_LABELS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    column_called,
    label_column,
    listed,
)
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.listing import Encoded, Listing, given_ids
from tnlpad.data.own.manifest import listing_of
from tnlpad.data.own.parquet import arrow_columns, is_bytes, joined, values_of
from tnlpad.data.own.parts import Part, part_named

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
