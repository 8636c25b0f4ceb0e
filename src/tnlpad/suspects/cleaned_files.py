"""Files of cleaned data, in the form of the original ones, so that `tnlpad train` reads them.

A table keeps its columns, encoding and separator.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tnlpad.suspects.clean import HEADER, ORIGINAL, Cleaned
from tnlpad.suspects.listing import RankedRun

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.columns import Table
    from tnlpad.data.own.manifest import Roles
    from tnlpad.data.own.tables import TextForm

Form = Literal["paths", "manifest", "table", "features", "images", "pictures", "ids"]
TEXT = (".csv", ".tsv", ".txt")
# The suffixes of each form, and the reason for them.
FORMS: dict[Form, tuple[tuple[str, ...], str]] = {
    "paths": (TEXT, "image files are written as a table of paths"),
    "manifest": (TEXT, "image files are written as a table of paths"),
    "table": (TEXT, "rows of numbers are written as text"),
    "features": (TEXT, "rows of numbers are written as text"),
    "images": ((".npz",), "these images came as arrays, which a table cannot hold"),
    "pictures": ((".parquet",), "these pictures came within a table and are written to another one"),
    "ids": (TEXT, "labels of a published dataset are written as a table by id"),
}
COLUMNS = ("id", "label", "split", ORIGINAL)


def form_of(run: RankedRun, kept: Sequence[Cleaned]) -> Form:
    """Return the form in which the data of a run are written."""
    from tnlpad.data.own.manifest import SUFFIXES

    kind = run.about.get("kind")
    if kind in ("text", "table"):
        return "table"
    if kind not in ("files", "features"):
        return "images" if kind == "images" else "ids"
    source = Path(run.about["path"])
    in_table = source.suffix.lower() in SUFFIXES and not source.is_dir()
    if kind == "features":
        return "table" if in_table else "features"
    if any(row.path is None for row in kept):
        return "pictures"
    return "manifest" if in_table and source.is_file() else "paths"


def write_cleaned(
    out: Path, form: Form, run: RankedRun, kept: Sequence[Cleaned], data: "OwnDataset | None" = None
) -> None:
    """Write the samples that are kept.

    Args:
        out: A file with a suffix of the form; its folder is created if needed.
        form: The form of the data.
        run: The run.
        kept: The samples.
        data: The data of the run; needed for features, images and pictures.
    """
    from tnlpad.data.own.tables import TextForm
    from tnlpad.suspects.export import write_rows

    content: tuple[Sequence[str], Iterable[Sequence[Any]], TextForm] | None = None
    if form in ("table", "manifest"):
        content = _corrected_table(run, kept)  # raises before a folder is created
    elif form in ("paths", "ids"):
        content = HEADER, (row.fields() for row in kept), TextForm()
    elif data is not None and data.features is not None:
        content = (*COLUMNS, *data.columns), _feature_rows(kept, data), TextForm()
    out.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        header, lines, text = content
        write_rows(out, header, lines, **asdict(text))
        return
    assert data is not None, "arrays and pictures are written from the data"
    if data.images is not None:
        _write_arrays(out, kept, data)
    else:
        _write_pictures(out, kept, data)


def _corrected_table(run: RankedRun, kept: Sequence[Cleaned]) -> "tuple[list[str], Iterator[list[Any]], TextForm]":
    """Return the heading and the rows of the table that the run was trained on, and its text format.

    Rows that could not be used stay as they are. Columns of ids, parts and original labels are added if missing. A
    table with other samples or labels than the run was trained on is refused, since manual changes would be lost.
    """
    from tnlpad.data.own.columns import without
    from tnlpad.data.own.dataset import ReadOptions
    from tnlpad.data.own.manifest import ids_of, read_table, roles_of

    source = Path(run.about["path"])
    table, text = read_table(source)
    seen = {name: table[name] for name in without(run.about.get("ignored", ()), table, source)}
    roles = roles_of(seen, source, ReadOptions(label=run.about.get("label_column"), id=run.about.get("id_column")))
    ids = ids_of(seen, roles, source)
    assert roles.label is not None, "the run was trained on it"
    _require_unchanged(run, table[roles.label], ids, source)
    added = {"id": roles.id, "split": roles.split, ORIGINAL: None}
    header = [*table, *(name for name, present in added.items() if present is None and name not in table)]
    return header, _corrected_rows(table, roles, ids, header, {row.id: row for row in kept}, {*run.samples["id"]}), text


def _require_unchanged(run: RankedRun, labels: Sequence[Any], ids: Sequence[str], source: Path) -> None:
    from tnlpad.data.own.labels import label_as_given
    from tnlpad.errors import DataError

    simulated = run.config.get("noise") not in (None, "none")  # then the table has other labels than the run
    found = {name: str(label_as_given(value, source)) for name, value in zip(ids, labels, strict=True)}
    for name, label in zip(run.samples["id"], run.samples["label_name"], strict=True):
        difference = None
        if name not in found:
            difference = "is missing"
        elif not simulated and label != found[name]:
            difference = f"had the label {label[:80]!r} and has {found[name][:80]!r}"
        if difference is not None:
            raise DataError(
                f"{source} has changed since the run was trained on it: {name[:80]!r} {difference}. Restore it, or "
                "train on it again."
            )


def _corrected_rows(
    table: "Table",
    roles: "Roles",
    ids: Sequence[str],
    header: Sequence[str],
    kept: Mapping[str, Cleaned],
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


def _places(kept: Sequence[Cleaned], data: "OwnDataset") -> list[int]:
    place = {name: number for number, name in enumerate(data.ids)}
    return [place[row.id] for row in kept]


def _feature_rows(kept: Sequence[Cleaned], data: "OwnDataset") -> Iterator[list[str]]:
    assert data.features is not None, "called for features"
    for row, place in zip(kept, _places(kept, data), strict=True):
        yield [*(getattr(row, name) for name in COLUMNS), *map(str, data.features[place])]


def _write_arrays(out: Path, kept: Sequence[Cleaned], data: "OwnDataset") -> None:
    import numpy as np

    from tnlpad.atomic_files import replacing

    assert data.images is not None, "called for images"
    ids, labels, splits, originals = (np.array([getattr(row, name) for row in kept]) for name in COLUMNS)
    images = data.images[_places(kept, data)]
    with replacing(out) as file:
        np.savez_compressed(file, images=images, ids=ids, labels=labels, splits=splits, original_labels=originals)


def _write_pictures(out: Path, kept: Sequence[Cleaned], data: "OwnDataset") -> None:
    """Write the pictures with their labels and all other columns of their table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tnlpad.atomic_files import replacing

    assert data.files is not None, "own data have files, images or features"
    places = _places(kept, data)
    picture_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # as `datasets` has it
    pictures = pa.array([{"bytes": data.files[place], "path": None} for place in places], picture_type)
    columns = {data.picture_column or "image": pictures}
    if data.further is not None:
        further = data.further.take(places)
        columns |= {name: further.column(name) for name in further.column_names}
    names = {"id": "id", data.label_column or "label": "label", "split": "split"}
    names |= {} if ORIGINAL in columns else {ORIGINAL: ORIGINAL}
    columns |= {name: pa.array([getattr(row, field) for row in kept], pa.string()) for name, field in names.items()}
    with replacing(out) as file:
        pq.write_table(pa.table(columns), file)


def images_option(out: Path, form: Form, run: RankedRun, kept: Sequence[Cleaned]) -> Path | None:
    """Return the folder for `--images` when training on a written table; None if paths are relative to the table."""
    if form not in ("paths", "manifest"):
        return None
    source = Path(run.about.get("images") or run.about["path"])
    images = source if source.is_dir() else source.parent
    folder = os.path.realpath(out.parent)
    if form == "manifest":  # with the original paths
        return None if os.path.realpath(images) == folder else images
    paths = [os.path.realpath(row.path) for row in kept if row.path is not None]
    return None if os.path.commonpath([folder, *paths]) == folder else images
