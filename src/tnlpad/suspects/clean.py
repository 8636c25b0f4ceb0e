"""What a person decided about suspects, as the page of the list saves it: ids, each with the label that is right.

Any table with the columns `id` and `label` will do; a row without a label means that no label fits.

A dataset's labels with the suspects corrected or dropped, the original label kept beside each.

What a person has decided counts, whatever the scores say. The test part stays as it is: it was never judged.

A person's own table with its labels corrected, and everything else as it is.

Cleaned data in the form that they came in, so that `tnlpad train` takes them back.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tnlpad.records.scores import SampleNames, SampleScores
from tnlpad.records.store import RecordError
from tnlpad.suspects.ranking import Ranking

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.columns import Table
    from tnlpad.data.own.manifest import Roles
    from tnlpad.data.own.tables import TextForm

Review = Mapping[str, str | None]  # the right label by id; None where none fits


def read_review(path: Path, ids: Iterable[str]) -> Review:
    """The decisions in a CSV file, each about one of these ids."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            # A spreadsheet may have saved it again, with semicolons.
            rows = csv.DictReader(file, delimiter=max(",;\t", key=heading.count))
            if missing := {"id", "label"} - set(rows.fieldnames or ()):
                raise RecordError(
                    f"{path} has no column {sorted(missing)[0]}: give what the page of suspects saves, or a table with "
                    "the columns id and label."
                )
            found = _decisions(rows, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{path} cannot be read as a table ({reason}).") from error
    if unknown := found.keys() - set(ids):
        raise RecordError(
            f"{path} is about {min(unknown)[:80]!r}, which is no sample of this run: it is the review of another one."
        )
    return found


def _decisions(rows: "csv.DictReader[str]", path: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for row in rows:
        if row["label"] is None:  # and not an empty field, which means that no label fits
            raise RecordError(
                f"{path}, line {rows.line_num}: the row ends before its label. Complete it, or remove it."
            )
        label = row["label"].strip() or None
        if found.setdefault(row["id"], label) != label:
            raise RecordError(f"{path} has two labels for {row['id'][:80]!r}: {found[row['id']]!r} and {label!r}.")
    return found


Action = Literal["correct", "drop"]
HEADER = ("id", "path", "label", "split", "original_label", "changed", "confidence")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What to do with labels that are wrong with at least this probability."""

    action: Action
    least_confidence: float


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A sample that stays; `confidence` that its label was wrong, None where nothing judged it."""

    id: str
    path: str | None
    label: str
    split: str
    original_label: str
    confidence: float | None

    @property
    def changed(self) -> bool:
        return self.label != self.original_label

    def row(self) -> tuple[str | None, ...]:
        """Its fields under `HEADER`."""
        confidence = "" if self.confidence is None else f"{self.confidence:.4f}"
        changed = "yes" if self.changed else "no"
        return self.id, self.path, self.label, self.split, self.original_label, changed, confidence


def cleaned(
    ranking: Ranking, scores: SampleScores, names: SampleNames, change: Change, review: Review | None = None
) -> Iterator[Cleaned]:
    """Every sample that was judged and stays, in the order of the dataset."""
    found, decided = ranking.evidence, review or {}
    doubted = (ranking.confidence >= change.least_confidence) & (found.suggested != found.given)
    for place, is_doubted in enumerate(doubted.tolist()):
        given, suggested = (scores.class_names[int(each[place])] for each in (found.given, found.suggested))
        name = names.ids[place]
        label: str | None = given
        if name in decided:
            label = decided[name]
        elif is_doubted:
            label = suggested if change.action == "correct" else None
        if label is not None:
            yield Cleaned(
                id=name,
                path=names.paths[place],
                label=label,
                split=str(scores.columns["part"][place]),
                original_label=given,
                confidence=float(ranking.confidence[place]),
            )


def untouched(samples: Mapping[str, Sequence[Any]]) -> Iterator[Cleaned]:
    """The test part of a run's list of samples."""
    for name, path, label, part in zip(*(samples[key] for key in ("id", "path", "label_name", "part")), strict=True):
        if part == "test":
            yield Cleaned(id=name, path=path, label=label, split=part, original_label=label, confidence=None)


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
    from tnlpad.data.own.labels import label_as_given
    from tnlpad.errors import DataError

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


Form = Literal["paths", "manifest", "table", "features", "images", "pictures", "ids"]
TEXT = (".csv", ".tsv", ".txt")
SUFFIXES: dict[Form, tuple[str, ...]] = {
    "paths": TEXT,
    "manifest": TEXT,
    "table": TEXT,
    "features": TEXT,
    "images": (".npz",),
    "pictures": (".parquet",),
    "ids": TEXT,
}
WHY: dict[Form, str] = {
    "paths": "image files make a table of paths",
    "manifest": "image files make a table of paths",
    "table": "features make a table",
    "features": "features make a table",
    "images": "these images came as arrays, which no table holds",
    "pictures": "these pictures came within a table, and go into another one",
    "ids": "a table has the labels by id",
}
COLUMNS = ("id", "label", "split", "original_label")


def form_of(about: Mapping[str, Any], rows: "Sequence[Cleaned]") -> Form:
    """What the data of a run are, by what it remembers of them; ids alone if they are published ones."""
    kind = about.get("kind")
    if kind == "files" and all(row.path is not None for row in rows):
        return "manifest" if is_table(about["path"]) and Path(about["path"]).is_file() else "paths"
    if kind == "files":
        return "pictures"
    if kind == "features":
        return "table" if is_table(about["path"]) else "features"
    return "images" if kind == "images" else "ids"


def write_cleaned(out: Path, rows: "Sequence[Cleaned]", table: TableOfRun | None, own: "OwnDataset | None") -> None:
    """Write the samples that stay.

    Args:
        out: A file with a suffix of their form; its folder is made if need be.
        rows: Their labels.
        table: Where they lay, if that is one; it comes back with everything else as it is there.
        own: The data; only needed where there is no such table, nor paths or ids alone.
    """
    from tnlpad.suspects.export import write_rows

    written = _as_table(rows, table, own)  # before a folder is made, since it may not be readable any more
    out.parent.mkdir(parents=True, exist_ok=True)
    if written is not None:
        header, lines, text = written
        write_rows(out, header, lines, **asdict(text))
        return
    assert own is not None, "arrays and pictures are in it"
    if own.images is not None:
        _write_arrays(out, rows, own.images[_places(rows, own)])
    else:
        _write_pictures(out, rows, own)


def _as_table(
    rows: "Sequence[Cleaned]", table: TableOfRun | None, own: "OwnDataset | None"
) -> "tuple[Sequence[str], Iterable[Sequence[Any]], TextForm] | None":
    """Heading, rows and how their text is written; None of what no text holds."""
    from tnlpad.data.own.tables import TextForm

    if table is not None:
        return corrected_table(table, rows)
    if own is None:
        return HEADER, (row.row() for row in rows), TextForm()
    if own.features is None:
        return None
    numbers = (map(str, own.features[number]) for number in _places(rows, own))
    labels = ([getattr(row, name) for name in COLUMNS] for row in rows)
    lines = ([*first, *rest] for first, rest in zip(labels, numbers, strict=True))
    return (*COLUMNS, *own.columns), lines, TextForm()


def _places(rows: "Sequence[Cleaned]", own: "OwnDataset") -> list[int]:
    place = {name: number for number, name in enumerate(own.ids)}
    return [place[row.id] for row in rows]


def _write_arrays(out: Path, rows: "Sequence[Cleaned]", images: Any) -> None:
    import numpy as np

    from tnlpad.atomic_files import replacing

    ids, labels, splits, original_labels = (np.array([getattr(row, name) for row in rows]) for name in COLUMNS)
    with replacing(out) as file:
        np.savez_compressed(file, images=images, ids=ids, labels=labels, splits=splits, original_labels=original_labels)


def _write_pictures(out: Path, rows: "Sequence[Cleaned]", own: "OwnDataset") -> None:
    """The pictures with their labels, and all that lay beside them as it is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tnlpad.atomic_files import replacing

    assert own.files is not None, "own data have files, images or features"
    order = _places(rows, own)
    pictures = pa.array([{"bytes": own.files[row], "path": None} for row in order], _picture_type())
    columns = {
        own.picture_column or "image": pictures
    }  # the first of several such columns is the one that is trained on
    if own.further is not None:
        further = own.further.take(order)
        columns |= {name: further.column(name) for name in further.column_names}
    names = {"id": "id", own.label_column or "label": "label", "split": "split"}
    names |= {} if ORIGINAL in columns else {ORIGINAL: "original_label"}
    columns |= {name: pa.array([getattr(row, role) for row in rows], pa.string()) for name, role in names.items()}
    with replacing(out) as file:
        pq.write_table(pa.table(columns), file)


def _picture_type() -> Any:
    """As `datasets` has it."""
    import pyarrow as pa

    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
