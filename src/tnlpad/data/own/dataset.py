"""The values that readers of own data share: options, listed samples, and the opened dataset with its fingerprint."""

import hashlib
import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.image_facts import ImageFacts
from tnlpad.data.own.labels import Label
from tnlpad.data.own.mixed import MixedTable
from tnlpad.data.own.selection import Encoded, Paths
from tnlpad.data.paths import PathList
from tnlpad.errors import DataError, as_utf8
from tnlpad.types import Index, Labels

Kind = Literal["images", "files", "features", "text", "table"]
Part = Literal["train", "validation", "test"]
# Names that people give to the parts of a dataset.
PARTS: dict[str, Part] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "eval": "validation",
    "test": "test",
    "testing": "test",
}
IN_MEMORY = Path("data")  # name of in-memory data in messages: that of the argument
NAME_PREFIX = "own-"
NAME_DIGITS = 10
MAX_TITLE_LENGTH = 40
# Fields of a dataset with a value for each sample.
PER_SAMPLE = (
    "ids",
    "rows",
    "labels",
    "parts",
    "images",
    "files",
    "features",
    "image_info",
    "digests",
    "texts",
    "groups",
    "pictures",
)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options that all readers take.

    Args:
        label: Label column of a table, or label array of an .npz file (default: one with a usual name).
        labelled: Whether samples must have labels. If not, labels are not read.
        columns: Features to read from a table, ignoring all other columns (default: every column that can be used).
        categories: Those of `columns` that are categories. With it, the table is of kind "table".
        ignored: Columns of a table to skip.
        text: Text column of a table (default: one with a usual name, or the only column of free text).
        group: Column whose equal values mark samples that belong together. It is not trained on.
        id: Column of the ids (default: one with a usual name). It is not trained on.
    """

    label: str | None = None
    labelled: bool = True
    columns: Sequence[str] = ()
    categories: Sequence[str] | None = None
    ignored: Sequence[str] = ()
    text: str | None = None
    group: str | None = None
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A sample that is left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """Samples that a reader found, with exactly one of files, images, features, texts or table.

    Args:
        ids: Unique, and the same whenever the data are read.
        labels: Texts or whole numbers; None for a missing label.
        rows: Row of each sample in the data as given, from 0: in its table, array or dataset, or in that of its part if
            each part has its own; for a folder, the place in the sorted list of its image files. By default all rows.
        parts: Part of each sample, if the data have parts.
        files: Images to decode.
        images: Decoded images: uint8, samples × channels × height × width.
        features: float32, samples × columns.
        columns: Names of the features, or of the columns of the table.
        texts: Texts; empty where there is none.
        text_column: Column of the texts, if they were in a table.
        table: Numbers with gaps, and categories.
        groups: Name of each sample's group; samples of one group belong together.
        pictures: Path of a picture of each sample that is trained on by other columns, or None.
        class_names: Names of the classes that whole-number labels count.
        problems: Samples left out so far.
        notes: Remarks for the owner of the data.
        further: Unused columns of a table of images, as an Arrow table.
        picture_column: Column of the images in that table.
    """

    ids: Sequence[str]
    labels: Sequence[Label | None]
    rows: Sequence[int] | None = None
    parts: Sequence[Part] | None = None
    files: Sequence[Encoded] | None = None
    images: NDArray[np.uint8] | None = None
    features: NDArray[np.float32] | None = None
    columns: tuple[str, ...] = ()
    texts: Sequence[str] | None = None
    text_column: str | None = None
    table: MixedTable | None = None
    groups: Sequence[str] | None = None
    pictures: Sequence[str | None] | None = None
    class_names: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    further: Any = None
    picture_column: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataShape:
    """The facts about data that the configuration of a run depends on.

    Args:
        fingerprint: SHA-256 of every sample's id, label, part and content. A run belongs to data with this fingerprint.
        kind: Images in memory, images in files, rows of features, texts, or rows with gaps or categories.
        samples: Samples to train on or hold out.
        validation: Those of them in a validation part.
        test: Samples in a test part.
        classes: Number of classes.
        channels: Channels of images, columns of features or of a table before encoding, 1 for texts.
        height, width: Size of images in memory; median shorter side of image files; else 1.
    """

    fingerprint: str
    kind: Kind
    samples: int
    validation: int
    test: int
    classes: int
    channels: int
    height: int
    width: int

    @property
    def name(self) -> str:
        """Name of the data, where published datasets have that of the catalogue."""
        return NAME_PREFIX + self.fingerprint[:NAME_DIGITS]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnDataset:
    """The usable samples, in a stable order. Fields as in `Listing`, and:

    Args:
        source: Path of the data.
        images_folder: Folder that the paths of a table are relative to, if given.
        label_column: Label column, if given.
        rows: Row of each sample in the data as given, as in `Listing`. Samples that were left out have rows as well.
        labels: Indices into `class_names`; −1 for unlabelled data.
        image_info: Size, mode and digest of each image file.
        digests: Digest of every sample's content.
        ignored: Columns skipped on request.
        group_column, id_column: Columns of the groups and of the ids, if given.
        categories: Categories of a table in memory that was saved, which a reader of the file cannot tell from text.
        decided: Labels that a person decided on in an earlier round, by id; see `decided`.
    """

    source: Path
    images_folder: Path | None
    label_column: str | None
    kind: Kind
    ids: Sequence[str]
    rows: Index
    labels: Labels
    class_names: tuple[str, ...]
    parts: tuple[Part, ...] | None
    images: NDArray[np.uint8] | None
    files: Sequence[Encoded] | None
    features: NDArray[np.float32] | None
    columns: tuple[str, ...]
    image_info: ImageFacts | None
    digests: Sequence[bytes]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    shape: DataShape
    ignored: tuple[str, ...] = ()
    further: Any = None
    picture_column: str | None = None
    texts: Sequence[str] | None = None
    text_column: str | None = None
    table: MixedTable | None = None
    groups: Sequence[str] | None = None
    group_column: str | None = None
    id_column: str | None = None
    pictures: Sequence[str | None] | None = None
    categories: tuple[str, ...] | None = None
    decided: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name of the folder or file, fit for a file name; "data" for samples that a program holds or has saved."""
        if self.source.stem == self.shape.name:
            return IN_MEMORY.name
        source = Path(os.path.abspath(self.source))
        name = unicodedata.normalize("NFKC", source.name if source.is_dir() else source.stem)
        return re.sub(r"[^\w.-]+", "-", name)[:MAX_TITLE_LENGTH].strip("-._") or IN_MEMORY.name

    @property
    def paths(self) -> Sequence[str | None]:
        """Path of each sample's own file, or None."""
        if self.pictures is not None:
            return self.pictures
        if self.files is None:
            return (None,) * len(self.ids)
        return self.files if isinstance(self.files, PathList) else Paths(self.files)

    def take(self, rows: Index) -> "OwnDataset":
        """Return some of the samples as a dataset with a fingerprint of its own."""
        chosen: dict[str, Any] = {}
        for name in PER_SAMPLE:
            values = getattr(self, name)
            if values is not None:
                chosen[name] = _taken(values, rows)
        part = replace(
            self, **chosen, table=None if self.table is None else self.table.take(rows.tolist()), further=None
        )
        test, validation = ((part.parts or ()).count(each) for each in ("test", "validation"))
        content = fingerprint(part.kind, part.ids, part.labels, part.class_names, part.parts, part.digests)
        samples = len(part.ids) - test
        shape = replace(self.shape, fingerprint=content, samples=samples, validation=validation, test=test)
        return replace(part, shape=shape)

    def indices(self, *parts: Part) -> Index:
        """Return the samples of these parts. Data without parts are all training samples."""
        if self.parts is None:
            return np.arange(len(self.ids) if "train" in parts else 0)
        return np.flatnonzero(np.isin(np.array(self.parts), parts))


def _taken(values: Any, rows: Index) -> Any:
    if isinstance(values, np.ndarray):
        return values[rows]
    return values.take(rows) if isinstance(values, ImageFacts) else tuple(values[row] for row in rows.tolist())


def part_named(text: Any, where: Path | str, column: str | None = None) -> Part:
    """Return the part that a word such as `val` names; an empty word means training. Messages name its column."""
    word = "" if text is None else str(text).strip().lower()
    if word and word not in PARTS:
        others = f" If the column {column[:80]!r} holds something else, rename it." if column is not None else ""
        raise DataError(f"{where}: {str(text)[:80]!r} is not a split. Write train, validation or test.{others}")
    return PARTS[word] if word else "train"


def given_ids(
    values: Iterable[Any],
    where: Path | str,
    *,
    must_differ: bool = True,
    way_out: str = "Make ids different, or leave them out.",
) -> list[str]:
    """Return ids as text. Missing and repeated ones raise DataError, or are numbered unless they `must_differ`."""
    ids = list(map(_name, values))
    if not must_differ:
        return unique(ids)
    if "" in ids:
        raise DataError(f"{where}: row {ids.index('')} (counted from 0) has no id. Give every sample one, or none.")
    counts = Counter(ids)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        times = "twice" if counts[repeated[0]] == 2 else f"{counts[repeated[0]]:,} times"
        more = f", and {len(repeated) - 1:,} other ids occur more than once" if len(repeated) > 1 else ""
        raise DataError(f"{where}: the id {repeated[0][:80]!r} occurs {times}{more}. {way_out}")
    return ids


def groups_of(values: Iterable[Any]) -> list[str]:
    """Return the name of each row's group; a row without a value is a group of its own."""
    names = [_name(value).strip() for value in values]
    return [f"={name}" if name else f"row {row}" for row, name in enumerate(names)]


def _name(value: Any) -> str:
    """Return an id or group as text, empty if it is missing."""
    return "" if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)) else str(value)


def unique(ids: Sequence[str]) -> list[str]:
    """Append a number to repeated ids."""
    taken, counts, result = set(ids), dict.fromkeys(ids, 0), []
    for name in ids:
        counts[name] += 1
        fresh = name
        while counts[name] > 1 and (fresh := f"{name}#{counts[name]}") in taken:
            counts[name] += 1
        taken.add(fresh)
        result.append(fresh)
    return result


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return names for columns without names."""
    return tuple(f"column {number}" for number in range(count))


def fingerprint(
    kind: str,
    ids: Sequence[str],
    labels: Labels,
    class_names: Sequence[str],
    parts: Sequence[str] | None,
    digests: Sequence[bytes],
) -> str:
    """Return the SHA-256 of the samples. Each text follows its length, so different lists give different bytes."""
    total = hashlib.sha256()

    def add(texts: Iterable[str], what: str = "the id") -> None:
        for content in (as_utf8(text, what) for text in texts):
            total.update(len(content).to_bytes(8, "big") + content)

    add((kind, str(len(class_names)), *class_names), "the label")
    for row, (name, label) in enumerate(zip(ids, labels.tolist(), strict=True)):
        add((name, str(label), parts[row] if parts is not None else ""))
        total.update(digests[row])
    return total.hexdigest()
