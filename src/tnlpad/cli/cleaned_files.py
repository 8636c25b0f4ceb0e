"""Cleaned data in the form that they came in, so that `tnlpad train` takes them back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.suspects.cleaning import Cleaned

Form = Literal["paths", "features", "images", "pictures", "ids"]
SUFFIXES: dict[Form, str] = {
    "paths": ".csv",
    "features": ".csv",
    "images": ".npz",
    "pictures": ".parquet",
    "ids": ".csv",
}
WHY: dict[Form, str] = {
    "paths": "image files make a table of paths",
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
        return "features"
    return "images" if kind == "images" else "ids"


def write_cleaned(out: Path, rows: "Sequence[Cleaned]", own: "OwnDataset | None") -> None:
    """Write the samples that stay.

    Args:
        out: A file with the suffix of their form.
        rows: Their labels.
        own: The data that they come from; not needed for paths and ids.
    """
    from tnlpad.suspects.cleaning import HEADER
    from tnlpad.suspects.export import write_rows

    if own is None:
        write_rows(out, HEADER, (row.row() for row in rows))
        return
    place = {name: number for number, name in enumerate(own.ids)}
    order = [place[row.id] for row in rows]
    if own.features is not None:
        numbers = (map(str, own.features[number]) for number in order)
        labels = ([getattr(row, name) for name in COLUMNS] for row in rows)
        write_rows(
            out, (*COLUMNS, *own.columns), ([*first, *rest] for first, rest in zip(labels, numbers, strict=True))
        )
    elif own.images is not None:
        _write_arrays(out, rows, own.images[order])
    else:
        assert own.files is not None, "own data have files, images or features"
        _write_pictures(out, rows, [own.files[number] for number in order])


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
