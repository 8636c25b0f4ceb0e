"""Cleaned data in the form that they came in, so that `tnlpad train` takes them back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tnlpad.cli.corrected_table import ORIGINAL, TableOfRun, corrected_table, is_table

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.csv_table import TextForm
    from tnlpad.suspects.cleaning import Cleaned

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
    from tnlpad.data.own.csv_table import TextForm
    from tnlpad.suspects.cleaning import HEADER

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

    from tnlpad.records.store import replacing

    ids, labels, splits, original_labels = (np.array([getattr(row, name) for row in rows]) for name in COLUMNS)
    with replacing(out) as file:
        np.savez_compressed(file, images=images, ids=ids, labels=labels, splits=splits, original_labels=original_labels)


def _write_pictures(out: Path, rows: "Sequence[Cleaned]", own: "OwnDataset") -> None:
    """The pictures with their labels, and all that lay beside them as it is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tnlpad.records.store import replacing

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
