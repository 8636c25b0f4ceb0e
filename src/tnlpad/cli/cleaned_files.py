"""Cleaned data in the form that they came in, so that `tnlpad train` takes them back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tnlpad.cli.corrected_table import corrected_table, form_like, is_table

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.csv_table import TextForm
    from tnlpad.suspects.cleaning import Cleaned

Form = Literal["paths", "table", "features", "images", "pictures", "ids"]
TEXT = (".csv", ".tsv", ".txt")
SUFFIXES: dict[Form, tuple[str, ...]] = {
    "paths": TEXT,
    "table": TEXT,
    "features": TEXT,
    "images": (".npz",),
    "pictures": (".parquet",),
    "ids": TEXT,
}
WHY: dict[Form, str] = {
    "paths": "image files make a table of paths",
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
    if kind == "files":
        return "paths" if all(row.path is not None for row in rows) else "pictures"
    if kind == "features":
        return "table" if is_table(about["path"]) else "features"
    return "images" if kind == "images" else "ids"


def write_cleaned(
    out: Path, rows: "Sequence[Cleaned]", form: Form, source: str | None, own: "OwnDataset | None"
) -> None:
    """Write the samples that stay.

    Args:
        out: A file with a suffix of their form; its folder is made if need be.
        rows: Their labels.
        form: Of the data.
        source: Where they lay; text is written as it is there.
        own: The data; not needed for paths and ids.
    """
    from tnlpad.suspects.export import write_rows

    table = _as_table(rows, form, source, own)  # before a folder is made, since it may not be readable any more
    out.parent.mkdir(parents=True, exist_ok=True)
    if table is not None:
        header, lines, text = table
        write_rows(out, header, lines, **asdict(text))
        return
    assert own is not None, "arrays and pictures are in it"
    order = _places(rows, own)
    if own.images is not None:
        _write_arrays(out, rows, own.images[order])
    else:
        assert own.files is not None, "own data have files, images or features"
        _write_pictures(out, rows, [own.files[number] for number in order])


def _as_table(
    rows: "Sequence[Cleaned]", form: Form, source: str | None, own: "OwnDataset | None"
) -> "tuple[Sequence[str], Iterable[Sequence[Any]], TextForm] | None":
    """Heading, rows and how their text is written; None of what no text holds."""
    from tnlpad.suspects.cleaning import HEADER

    if own is None:
        return HEADER, (row.row() for row in rows), form_like(source)
    if form == "table":
        return corrected_table(own, rows)
    if own.features is None:
        return None
    numbers = (map(str, own.features[number]) for number in _places(rows, own))
    labels = ([getattr(row, name) for name in COLUMNS] for row in rows)
    lines = ([*first, *rest] for first, rest in zip(labels, numbers, strict=True))
    return (*COLUMNS, *own.columns), lines, form_like(None)


def _places(rows: "Sequence[Cleaned]", own: "OwnDataset") -> list[int]:
    place = {name: number for number, name in enumerate(own.ids)}
    return [place[row.id] for row in rows]


def _write_arrays(out: Path, rows: "Sequence[Cleaned]", images: Any) -> None:
    import numpy as np

    from tnlpad.records.store import replacing

    ids, labels, splits, original_labels = (np.array([getattr(row, name) for row in rows]) for name in COLUMNS)
    with replacing(out) as file:
        np.savez_compressed(file, images=images, ids=ids, labels=labels, splits=splits, original_labels=original_labels)


def _write_pictures(out: Path, rows: "Sequence[Cleaned]", contents: Sequence[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tnlpad.records.store import replacing

    pictures = pa.array([{"bytes": each, "path": None} for each in contents], _picture_type())
    columns = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in COLUMNS}
    with replacing(out) as file:
        pq.write_table(pa.table({"image": pictures, **columns}), file)


def _picture_type() -> Any:
    """As `datasets` has it."""
    import pyarrow as pa

    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
