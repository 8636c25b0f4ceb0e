"""The parts of a dataset, by the words that people use for them.

What a reader finds in a person's data, before any image is looked at: one entry per sample, in a stable order.

One number for all that a run depends on in a person's data; where they lie is not part of it.

A person's own data as one value: samples with stable ids, labels as given, and contents.

Nothing here knows which labels are right. `shape` is what a run has to know of the data to be configured, with a
fingerprint of every id, label, part and content: a run belongs to data with this fingerprint, wherever they lie.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.labels import Label
from tnlpad.data.pixels import ImageInfo
from tnlpad.errors import DataError
from tnlpad.types import Index, Labels

Part = Literal["train", "validation", "test"]
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


def part_named(text: Any, where: Path | str) -> Part:
    """The part that a word such as `val` means; nothing said means training."""
    word = "" if text is None else str(text).strip().lower()
    if word and word not in PARTS:
        raise DataError(f"{where}: {str(text)[:80]!r} is no part of a dataset. Write train, validation or test.")
    return PARTS[word] if word else "train"


IN_MEMORY = Path("data")  # how messages call what a program holds: as the argument is called
Encoded = str | bytes  # an image as a path, or as the content of such a file


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A sample that is left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """Samples with their labels as given, and one of files, images or features.

    Args:
        ids: Unique and stable: the same sample has the same one next time.
        labels: Texts or whole numbers; None where there is none.
        parts: Of each sample, where the data say so.
        files: Images that are still to be decoded.
        images: Decoded ones: uint8 of shape samples × channels × height × width.
        features: Numbers: float32 of shape samples × columns, whose names are `columns`.
        class_names: Where labels are numbers that stand for names.
        problems: What was left out so far.
        notes: What the owner should know and nothing was left out for.
        further: Of a table of pictures, the columns that are not looked at, as an Arrow table.
        picture_column: What holds them there.
    """

    ids: Sequence[str]
    labels: Sequence[Label | None]
    parts: Sequence[Part] | None = None
    files: Sequence[Encoded] | None = None
    images: NDArray[np.uint8] | None = None
    features: NDArray[np.float32] | None = None
    columns: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    further: Any = None
    picture_column: str | None = None


def unique(ids: Sequence[str]) -> list[str]:
    """The same names, with a number behind those that come again."""
    taken, counts, result = set(ids), dict.fromkeys(ids, 0), []
    for name in ids:
        counts[name] += 1
        fresh = name
        while counts[name] > 1 and (fresh := f"{name}#{counts[name]}") in taken:
            counts[name] += 1
        taken.add(fresh)
        result.append(fresh)
    return result


def require_unique(ids: Sequence[str], where: Path | str) -> None:
    """An id stands for one sample."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(
                f"{where}: the id {name[:80]!r} is there twice, and an id stands for one sample. Make ids different, "
                "or leave them out."
            )
        seen.add(name)


def given_ids(values: Iterable[Any], where: Path | str, *, must_differ: bool = True) -> list[str]:
    """Ids as a column or an array has them: none missing, none twice; or where they need not differ, numbered."""
    ids = ["" if value is None else str(value) for value in values]
    if not must_differ:
        return unique(ids)
    if "" in ids:
        raise DataError(
            f"{where}: row {ids.index('')} (the first is 0) has no id. Give every sample one, or leave ids out."
        )
    require_unique(ids, where)
    return ids


def numbered_columns(count: int) -> tuple[str, ...]:
    """What columns are called that have no names."""
    return tuple(f"column {number}" for number in range(count))


def fingerprint(
    kind: str,
    ids: Sequence[str],
    labels: Labels,
    class_names: Sequence[str],
    parts: Sequence[str] | None,
    digests: Sequence[bytes],
) -> str:
    """SHA-256 over every text with its length before it, so that no two lists of samples give the same bytes."""
    total = hashlib.sha256()

    def add(text: str) -> None:
        content = text.encode()
        total.update(len(content).to_bytes(8, "big") + content)

    for text in (kind, str(len(class_names)), *class_names):
        add(text)
    for row, name in enumerate(ids):
        add(name)
        add(str(labels[row]))
        add(parts[row] if parts is not None else "")
        total.update(digests[row])
    return total.hexdigest()


Kind = Literal["images", "files", "features"]
NAME_PREFIX = "own-"
DIGITS_IN_NAME = 10


@dataclass(frozen=True, kw_only=True)
class DataShape:
    """What configures a run on own data, and by its fingerprint which data they are.

    Args:
        fingerprint: SHA-256 over every sample's id, label, part and content.
        kind: Images in memory, images in files, or rows of features.
        samples: To train on or to hold out.
        validation: Those of them that the data themselves hold out; 0 if they leave that open.
        test: Samples of a test part; 0 if there is none.
        classes: How many classes there are.
        channels: Of images; of features, the number of columns.
        height, width: Of images in memory; of files, the usual shorter side; of features, 1.
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
        """In place of a dataset's name in the catalogue."""
        return NAME_PREFIX + self.fingerprint[:DIGITS_IN_NAME]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnDataset:
    """The samples that can be used, in a stable order.

    Args:
        source: Where they come from.
        images_folder: What the paths of a table are relative to, if that was said.
        label_column: What holds the labels there, if that was said.
        kind: Which of `images`, `files` and `features` they are.
        ids: Unique.
        labels: Places in `class_names`; −1 where the data were opened as unlabelled.
        parts: "train", "validation" or "test" for each sample; None if the data have no parts.
        images: uint8, samples × channels × height × width.
        files: Paths, or the contents of such files.
        features: float32, samples × columns.
        columns: The names of those.
        seen: Of image files: size, mode and digest.
        digests: Of every sample's content.
        problems: What was left out.
        notes: What else their owner should know.
        ignored: Columns of a table that were not looked at, since that was said.
        further: Of a table of pictures, the columns that were not looked at, as an Arrow table.
        picture_column: What holds them there.
    """

    source: Path
    images_folder: Path | None
    label_column: str | None
    kind: Kind
    ids: tuple[str, ...]
    labels: Labels
    class_names: tuple[str, ...]
    parts: tuple[Part, ...] | None
    images: NDArray[np.uint8] | None
    files: Sequence[Encoded] | None
    features: NDArray[np.float32] | None
    columns: tuple[str, ...]
    seen: tuple[ImageInfo, ...] | None
    digests: tuple[bytes, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    shape: DataShape
    ignored: tuple[str, ...] = ()
    further: Any = None
    picture_column: str | None = None

    @property
    def paths(self) -> tuple[str | None, ...]:
        """Of every sample its file, where it has one of its own."""
        if self.files is None:
            return (None,) * len(self.ids)
        return tuple(each if isinstance(each, str) else None for each in self.files)

    def indices(self, *parts: Part) -> Index:
        """The samples of these parts; where there are none, all are to train on."""
        if self.parts is None:
            return np.arange(len(self.ids) if "train" in parts else 0)
        return np.flatnonzero(np.isin(np.array(self.parts), parts))
