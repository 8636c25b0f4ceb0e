"""Values that stages pass to each other, and the interfaces of the training loop.

Dataclasses with arrays compare by identity, because `==` of arrays is ambiguous.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

ImagesAt = Callable[["Tensor"], "Tensor"]  # indices into a dataset -> its images, normalised and not augmented
Labels = NDArray[np.int64]
Index = NDArray[np.int64]
Transition = NDArray[np.float64]
ImageSource = str | bytes | NDArray[np.uint8]  # path of an image, its content, or resized pixels with 3 channels
ProtocolName = Literal["paper", "authors"]  # whose choices to follow where the paper and its authors' code differ


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLabels:
    """Labels before and after corruption, with transition[i, j] = P(given j | clean i)."""

    given: Labels
    clean: Labels
    transition: Transition


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Samples to train on, and samples to choose epochs and settings with; both keep their given labels."""

    train: Index
    validation: Index


@dataclass(frozen=True, kw_only=True, eq=False)
class RawDataset:
    """Images in memory, uint8 of shape samples × channels × height × width, with labels."""

    images: NDArray[np.uint8]
    labels: Labels
    class_names: tuple[str, ...]


class ImageStore(Protocol):
    """Images on disk by number, to be read in any order and by several threads."""

    def read(self, place: int) -> ImageSource:
        """Return an image; raise DataError if it no longer exists."""

    def where(self, place: int) -> str:
        """Return the location of an image, for messages."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFiles:
    """Images on disk, one path per sample, with labels.

    Args:
        paths: Any sequence, such as `tnlpad.data.paths.PathList`, which keeps a million of them in little memory.
        labels: One per sample.
        class_names: By label.
        store: Where the images are, by sample (default: in the files at `paths`).
    """

    paths: Sequence[str]
    labels: Labels
    class_names: tuple[str, ...]
    store: ImageStore | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Samples of one training step: their index in the whole dataset, images and given labels.

    On several ranks, `index` and `labels` are those of the whole batch, and `images` this rank's share of it.
    """

    index: "Tensor"
    images: "Tensor"
    labels: "Tensor"


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The current epoch, counted from 1 like the paper's t, and the number of epochs."""

    epoch: int
    epochs: int


class BatchSource(Protocol):
    """Batches of an epoch, for each pass over it."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


class RunFiles(Protocol):
    """Records of a training loop, such as `tnlpad.records.store.RunFolder`."""

    @property
    def checkpoint_file(self) -> Path: ...

    def epochs(self) -> list[dict[str, Any]]: ...

    def keep_epochs(self, count: int) -> None: ...

    def append_epoch(self, record: Mapping[str, Any]) -> None: ...
