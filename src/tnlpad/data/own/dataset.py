"""A person's own data as one value: samples with stable ids, labels as given, and contents.

Nothing here knows which labels are right. `shape` is what a run has to know of the data to be configured, with a
fingerprint of every id, label, part and content: a run belongs to data with this fingerprint, wherever they lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.listing import Encoded, Problem
from tnlpad.data.own.parts import Part
from tnlpad.data.pixels import Seen
from tnlpad.types import Index, Labels

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
    seen: tuple[Seen, ...] | None
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
