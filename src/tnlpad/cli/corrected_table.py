"""A person's own table with its labels corrected, and everything else as it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tnlpad.data.own.csv_table import TextForm
    from tnlpad.data.own.features import Table
    from tnlpad.data.own.manifest import Roles
    from tnlpad.suspects.cleaning import Cleaned

ORIGINAL = "original_label"


@dataclass(frozen=True, kw_only=True)
class TableOfRun:
    """The table that a run was trained on, as the run remembers it.

    Args:
        path: The file.
        label: The column of the classes, if that was said.
        ignored: Columns that were not to be looked at.
        labels: Of every sample, by its id, the label that it had there; None where other labels were trained on.
    """

    path: Path
    label: str | None
    ignored: Sequence[str]
    labels: Mapping[str, str | None]


def is_table(source: Path | str) -> bool:
    """Whether the data lie in a file that is a table."""
    from tnlpad.data.own.manifest import SUFFIXES

    return Path(source).suffix.lower() in SUFFIXES and not Path(source).is_dir()


def corrected_table(source: TableOfRun, kept: "Sequence[Cleaned]") -> tuple[list[str], Iterator[list[Any]], "TextForm"]:
    """The heading and the rows of the table, and how text is written there.

    A sample that is not kept is left out; a row that could not be used stays as it is. Where the table has no columns
    of ids, parts and the labels as they were, these are added. A table with other samples or labels than the run was
    trained on is refused, since what was changed by hand would be lost.
    """
    from tnlpad.data.own.columns import without
    from tnlpad.data.own.manifest import ids_of, read_table, roles_of

    table, text = read_table(source.path)
    seen = {name: table[name] for name in without(source.ignored, table, source.path)}
    roles = roles_of(seen, source.path, label=source.label)
    ids = ids_of(seen, roles, source.path)
    assert roles.label is not None, "the run was trained on it"
    _require_unchanged(table[roles.label], ids, source)
    added = {"id": roles.id, "split": roles.split, ORIGINAL: None}
    header = [*table, *(name for name, present in added.items() if present is None and name not in table)]
    return header, _lines(table, roles, ids, header, {row.id: row for row in kept}, source.labels), text


def _require_unchanged(labels: Sequence[Any], ids: Sequence[str], source: TableOfRun) -> None:
    from tnlpad.data.errors import DataError
    from tnlpad.data.own.labels import label_as_given

    now = {name: str(label_as_given(value, source.path)) for name, value in zip(ids, labels, strict=True)}
    for name, label in source.labels.items():
        if name not in now or label not in (None, now[name]):
            difference = "is no longer there"
            if name in now and label is not None:
                difference = f"had the label {label[:80]!r}, and now has {now[name][:80]!r}"
            raise DataError(
                f"{source.path} has changed since the run was trained on it: {name[:80]!r} {difference}. Restore it, "
                "or train on it as it is now."
            )


def _lines(
    table: "Table",
    roles: "Roles",
    ids: Sequence[str],
    header: Sequence[str],
    kept: "dict[str, Cleaned]",
    used: "Mapping[str, Any]",
) -> Iterator[list[Any]]:
    assert roles.label is not None, "the run was trained on it"
    for place, name in enumerate(ids):
        line = {column: values[place] for column, values in table.items()}
        row = kept.get(name)
        if row is not None:
            line.setdefault(ORIGINAL, row.original_label)
            if roles.split is None:
                line.setdefault("split", row.split)
            else:
                line[roles.split] = row.split
            if str(line[roles.label]).strip() != row.label:
                line[roles.label] = row.label
        if row is not None or name not in used:
            line.setdefault("id", name)
            yield [line.get(column) for column in header]
