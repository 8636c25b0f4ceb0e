"""Clean a dataset: correct or drop the labels that are probably wrong, and keep the original label beside each.

The decisions of a reviewer override the suggestions. The test part is not scored and stays as it is. Cleaned data have
the form of the original ones, so `tnlpad train` reads them: a table keeps its columns, encoding and separator.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tnlpad.records.store import RecordError
from tnlpad.suspects.listing import RankedRun

if TYPE_CHECKING:
    import pandas as pd

    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.columns import Table
    from tnlpad.data.own.manifest import Roles
    from tnlpad.data.own.tables import TextForm

Action = Literal["correct", "drop"]
Review = Mapping[str, str | None]  # the right label by id; None where no label fits
DEFAULT_CONFIDENCE = 0.9
NO_CHANGE = 1.0  # more than any confidence
ORIGINAL = "original_label"
HEADER = ("id", "path", "label", "split", ORIGINAL, "changed", "confidence")


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A sample that is kept; `confidence` that its original label is wrong is None in the test part."""

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
        """Return the fields under `HEADER`."""
        confidence = "" if self.confidence is None else f"{self.confidence:.4f}"
        changed = "yes" if self.changed else "no"
        return self.id, self.path, self.label, self.split, self.original_label, changed, confidence


def min_confidence(run: RankedRun, confidence: float | None) -> float:
    """Return the confidence from which labels are changed: none where the network is too weak, unless it is given."""
    if confidence is not None:
        return confidence
    return DEFAULT_CONFIDENCE if run.caution is None else NO_CHANGE


def clean_samples(
    run: RankedRun, *, action: Action = "correct", confidence: float | None = None, review: Review | None = None
) -> list[Cleaned]:
    """Return the samples that are kept: the scored ones in the order of the dataset, then the test part.

    Args:
        run: The run.
        action: Replace a label that is probably wrong by the suggested one, or drop the sample.
        confidence: Change labels that are wrong with at least this probability; see `min_confidence`.
        review: Decisions of a reviewer, which override the suggestions.
    """
    ranking, names, classes, decisions = run.ranking, run.names, run.scores.class_names, review or {}
    found = ranking.evidence
    doubted = (ranking.confidence >= min_confidence(run, confidence)) & (found.suggested != found.given)
    kept = []
    for place, name in enumerate(names.ids):
        given = classes[int(found.given[place])]
        label: str | None = given
        if name in decisions:
            label = decisions[name]
        elif doubted[place]:
            label = classes[int(found.suggested[place])] if action == "correct" else None
        if label is not None:
            kept.append(
                Cleaned(
                    id=name,
                    path=names.paths[place],
                    label=label,
                    split=str(run.scores.columns["part"][place]),
                    original_label=given,
                    confidence=float(ranking.confidence[place]),
                )
            )
    columns = (run.samples.get(key, ()) for key in ("id", "path", "label_name", "part"))
    test = (row for row in zip(*columns, strict=True) if row[-1] == "test")
    return kept + [
        Cleaned(id=name, path=path, label=label, split=part, original_label=label, confidence=None)
        for name, path, label, part in test
    ]


def read_review(path: Path, ids: Iterable[str]) -> Review:
    """Read decisions from a CSV file with the columns `id` and `label`; an empty label means that none fits.

    Args:
        path: The file that the page of suspects saves, or another table.
        ids: Ids of the run's samples.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            # A spreadsheet may have saved it again, with semicolons.
            rows = csv.DictReader(file, delimiter=max(",;\t", key=heading.count))
            if missing := {"id", "label"} - set(rows.fieldnames or ()):
                raise RecordError(
                    f"{path} has no column {sorted(missing)[0]}. Give the file that the page of suspects saves, or a "
                    "table with the columns id and label."
                )
            found: dict[str, str | None] = {}
            for row in rows:
                if row["label"] is None:  # the row is too short; an empty label is ""
                    raise RecordError(f"{path}, line {rows.line_num}: the label is missing. Complete or remove it.")
                label = row["label"].strip() or None
                if found.setdefault(row["id"], label) != label:
                    raise RecordError(
                        f"{path} has two labels for {row['id'][:80]!r}: {found[row['id']]!r} and {label!r}."
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{path} cannot be read as a table ({reason}).") from error
    check_review(found, ids, str(path))
    return found


def check_review(review: Review, ids: Iterable[str], where: str) -> None:
    """Raise `RecordError` if a decision is about a sample that is not in the run."""
    if unknown := review.keys() - set(ids):
        raise RecordError(
            f"{where} has {min(unknown)[:80]!r}, which is not a sample of this run. Is it the review of another run?"
        )


# Data in memory -------------------------------------------------------------------------------------------------------


def cleaned_labels(
    run: RankedRun, kept: Sequence[Cleaned], ids: Sequence[str], labels: Sequence[Any]
) -> tuple[list[int], list[Any]]:
    """Return the places of the kept samples among `ids`, and their labels in the values that `labels` has.

    Args:
        run: The run.
        kept: The samples that are kept.
        ids: Ids of all samples, in the order of the data.
        labels: Their original labels. The text of a class that is not among them stays a text.
    """
    place = {name: row for row, name in enumerate(ids)}
    values: dict[str, Any] = {}
    for name, label in zip(run.names.ids, run.scores.columns["given"].tolist(), strict=True):
        values.setdefault(run.scores.class_names[label], labels[place[name]])
    chosen = sorted((place[row.id], row) for row in kept)
    return [at for at, _ in chosen], [
        values.get(row.label, row.label) if row.changed else labels[at] for at, row in chosen
    ]


def cleaned_frame(
    run: RankedRun, kept: Sequence[Cleaned], ids: Sequence[str], frame: "pd.DataFrame", column: Any
) -> "pd.DataFrame":
    """Return a DataFrame with its label column corrected, and the original labels beside it.

    Rows that could not be used stay as they are. Original labels of an earlier cleaning stay as well.
    """
    import numpy as np

    labels = frame[column].tolist()
    corrected = dict(zip(*cleaned_labels(run, kept, ids, labels), strict=True))
    used = {*run.names.ids, *run.samples["id"]}
    rows = [row for row, name in enumerate(ids) if row in corrected or name not in used]
    values = np.empty(len(rows), dtype=object)
    values[:] = [corrected.get(row, labels[row]) for row in rows]
    result = frame.iloc[rows].copy()
    original = result[column].array
    result[column] = values
    if set(values) <= set(labels):  # no class is new
        result[column] = result[column].astype(frame[column].dtype)
    if ORIGINAL not in result.columns:
        result.insert(result.columns.get_loc(column) + 1, ORIGINAL, original)
    return result


# Files ----------------------------------------------------------------------------------------------------------------

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
        content = HEADER, (row.row() for row in kept), TextForm()
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
    roles = roles_of(seen, source, ReadOptions(label=run.about.get("label_column")))
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
