"""A person's own table with its labels corrected, and everything else as it is."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.csv_table import TextForm
    from tnlpad.data.own.features import Table
    from tnlpad.data.own.manifest import Roles
    from tnlpad.suspects.cleaning import Cleaned

ORIGINAL = "original_label"


def is_table(source: Path | str) -> bool:
    """Whether the data lie in a file that is a table."""
    from tnlpad.data.own.manifest import SUFFIXES

    return Path(source).suffix.lower() in SUFFIXES and not Path(source).is_dir()


def form_like(source: Path | str | None) -> "TextForm":
    """How the text of a table is written; as UTF-8 with commas if the source is none."""
    from tnlpad.data.own.csv_table import TextForm, read_csv
    from tnlpad.data.own.manifest import TEXT_SUFFIXES

    if source is None or Path(source).suffix.lower() not in TEXT_SUFFIXES or not Path(source).is_file():
        return TextForm()
    return read_csv(Path(source))[1]


def corrected_table(own: "OwnDataset", kept: "Sequence[Cleaned]") -> tuple[list[str], Iterator[list[Any]], "TextForm"]:
    """The heading and the rows of the table that the data come from, and how text is written there.

    A sample that is not kept is left out; a row that could not be used stays as it is. Where the table has no columns
    of ids, parts and the labels as they were, these are added.
    """
    from tnlpad.data.own.columns import without
    from tnlpad.data.own.manifest import ids_of, read_table, roles_of

    table, text = read_table(own.source)
    seen = {name: table[name] for name in without(own.ignored, table, own.source)}
    roles = roles_of(seen, own.source, label=own.label_column)
    ids = ids_of(seen, roles, own.source)
    added = {"id": roles.id, "split": roles.split, ORIGINAL: None}
    header = [*table, *(name for name, present in added.items() if present is None and name not in table)]
    return header, _lines(table, roles, ids, header, {row.id: row for row in kept}, set(own.ids)), text


def _lines(
    table: "Table",
    roles: "Roles",
    ids: Sequence[str],
    header: Sequence[str],
    kept: "dict[str, Cleaned]",
    used: set[str],
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
