"""The values that pass between stages: frozen, keyword-only, without behaviour; and what a loop asks of its files.

Arrays make `==` ambiguous, so these compare by identity; compare the fields.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

ImagesAt = Callable[["Tensor"], "Tensor"]  # indices into a dataset -> its images, normalised and not augmented
Labels = NDArray[np.int64]
Index = NDArray[np.int64]
Transition = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLabels:
    """Labels before and after corruption, with transition[i, j] = P(given j | clean i)."""

    given: Labels
    clean: Labels
    transition: Transition


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Which samples are trained on and which choose epochs and settings; the labels of both stay as given."""

    train: Index
    validation: Index


@dataclass(frozen=True, kw_only=True, eq=False)
class RawDataset:
    """Images that fit into memory, as published: uint8 of shape samples × channels × height × width, with labels."""

    images: NDArray[np.uint8]
    labels: Labels
    class_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFiles:
    """Images that stay on disk, one path per sample, with labels."""

    paths: tuple[str, ...]
    labels: Labels
    class_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """What a training step sees: the samples' places in the whole dataset, their images and their given labels."""

    index: "Tensor"
    images: "Tensor"
    labels: "Tensor"


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Where training stands: the epoch counts from 1, as the paper's t does."""

    epoch: int
    epochs: int


class BatchSource(Protocol):
    """What a training loop reads batches from, an epoch for each pass over it."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


class RunFiles(Protocol):
    """Where a training loop keeps its records; `tnlpad.records.store.RunFolder` is one."""

    @property
    def checkpoint_file(self) -> Path: ...

    def epochs(self) -> list[dict[str, Any]]: ...

    def keep_epochs(self, count: int) -> None: ...

    def append_epoch(self, record: Mapping[str, Any]) -> None: ...
