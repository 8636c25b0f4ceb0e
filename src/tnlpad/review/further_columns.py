"""The columns of a person's table, for the page to show beside each sample: all but label, id, path and text.

They are read from the table itself, since training needs only some of them, and are kept as Arrow arrays in order of
position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnlpad.errors import DataError
from tnlpad.suspects.listing import RankedRun

MAX_COLUMNS = 40
MAX_CHARACTERS = 500  # of a value
GONE = -1  # row of a sample that is not in the table


@dataclass(frozen=True, kw_only=True, eq=False)
class FurtherColumns:
    """Texts by name of the column, one per sample in order of position; `more` columns are left out."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    more: int = 0

    def values(self, at: int) -> list[tuple[str, str]]:
        """Return the names and values of a sample, without empty ones."""
        found = [(name, column[at].as_py()) for name, column in self.columns.items()]
        return [(name, value) for name, value in found if value]


def read_further_columns(run: RankedRun) -> FurtherColumns:
    """Read the further columns of the table that a run was trained on; none for other data, or if it is gone."""
    from tnlpad.data.own.manifest import SUFFIXES

    source = Path(run.about.get("path", ""))
    if not run.about or not source.is_file() or source.suffix.lower() not in SUFFIXES:
        return FurtherColumns()
    if run.about["kind"] == "files" and all(path is None for path in run.names.paths):
        return FurtherColumns()  # a table of pictures
    try:
        return _read(run, source)
    except DataError:  # it has changed since; the samples are not shown either, with a message
        return FurtherColumns()


def _read(run: RankedRun, source: Path) -> FurtherColumns:
    from tnlpad.data.own.columns import without
    from tnlpad.data.own.manifest import ids_of, read_table, roles_of

    table, _ = read_table(source)
    seen = {name: table[name] for name in without(run.read_options.ignored, table, source)}
    roles = roles_of(seen, source, run.read_options)
    assert roles.label is not None, "the run was trained on it"
    row_of = {name: row for row, name in enumerate(ids_of(seen, roles, source))}
    rows = [row_of.get(run.names.ids[place], GONE) for place in run.ranking.order.tolist()]
    if GONE in rows or not _has_labels(run, table[roles.label], rows, source):
        return FurtherColumns()
    shown = {roles.label, roles.id, roles.path, run.about.get("text_column")}
    names = [name for name in table if name not in shown and _is_plain(table[name])]
    columns = {name: _column(table[name], rows) for name in names[:MAX_COLUMNS]}
    return FurtherColumns(columns=columns, more=len(names[MAX_COLUMNS:]))


def _has_labels(run: RankedRun, labels: Sequence[Any], rows: Sequence[int], source: Path) -> bool:
    """Whether the rows have the labels of the run: if lines were added, rows that are known by number are others."""
    from tnlpad.data.own.labels import label_as_given

    if run.config.get("noise") not in (None, "none"):  # then the run has other labels than the table
        return True
    names, given = run.scores.class_names, run.ranking.evidence.given[run.ranking.order].tolist()
    found = (str(label_as_given(labels[row], source)) for row in rows)
    return all(label == names[number] for label, number in zip(found, given, strict=True))


def _is_plain(column: Sequence[Any]) -> bool:
    """Whether the first value of a column is a text or a number, not a list of them or bytes."""
    first = next((value for value in column if value is not None), None)
    return not isinstance(first, list | dict | bytes)


def _column(column: Any, rows: Sequence[int]) -> Any:
    """Return the values of these rows as an Arrow column of texts, with an index of them if they repeat."""
    import pyarrow as pa

    plain = pa.array((_text(column[row]) for row in rows), pa.large_string(), size=len(rows))
    encoded = plain.dictionary_encode()
    return min(plain, encoded, key=lambda each: each.nbytes)


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode()
