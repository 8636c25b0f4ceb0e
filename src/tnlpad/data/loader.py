"""Load batches from a dataset that fits on the device: one tensor, no worker processes, no copies from the host.

An epoch is a plan: a table with one row per sample, in the order of training, that holds its dataset index and its
augmentation (`augment.draw`). The plan is drawn on the CPU from two generators and sent to the device once. A batch is
a function of its rows of the plan, so a whole training step can be captured as a CUDA graph that is fed with rows.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tnlpad.data.augment import Augmentation, Augmenter, draw
from tnlpad.ranks import group
from tnlpad.types import Batch


class _Loader:
    """Yields `Batch(index, images, labels)`, where `index` counts in the whole dataset."""

    def __init__(
        self,
        samples: Tensor,
        labels: Tensor,
        batch_size: int,
        indices: Tensor | None,
        order: torch.Generator | None,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: must be at least 1.")
        if len(samples) != len(labels):
            raise ValueError(f"{len(samples)} samples but {len(labels)} labels: give one label per sample.")
        self.indices = torch.arange(len(samples)) if indices is None else torch.as_tensor(indices).long().cpu()
        if len(self.indices) == 0:
            raise ValueError("No samples to load: indices are empty.")
        if self.indices.min() < 0 or self.indices.max() >= len(samples):
            raise ValueError(
                f"indices reach from {self.indices.min()} to {self.indices.max()}: 0..{len(samples) - 1} exist."
            )
        if drop_last and len(self.indices) < batch_size:
            raise ValueError(f"drop_last leaves no batch of {batch_size} from {len(self.indices)} samples.")
        self.labels = torch.as_tensor(labels).to(samples.device)
        self.batch_size, self.drop_last, self.order = batch_size, drop_last, order

    def __len__(self) -> int:
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def plan(self) -> Tensor:
        """Draw an epoch: one row per sample in the order of training, its dataset index first; on the device."""
        index = self.indices
        if self.order is not None:
            index = index[torch.randperm(len(index), generator=self.order)]
        return torch.cat([index.unsqueeze(1), *self._columns(len(index))], dim=1).to(
            self.labels.device, non_blocking=True
        )

    def _columns(self, samples: int) -> list[Tensor]:
        """Draw further columns of the plan."""
        return []

    def batch(self, rows: Tensor) -> Batch:
        """Return the batch that some rows of a plan describe."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Batch]:
        plan = self.plan()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.batch(plan[start : start + self.batch_size])


class DeviceLoader(_Loader):
    """Yields batches of images.

    Args:
        images: The dataset, uint8 of shape N × C × H × W, on the device to train on.
        labels: One label per image of the dataset.
        batch_size: Samples per batch.
        mean, std: Per channel, of pixel values in [0, 1].
        indices: Samples to load, such as the training part of a split (default: all).
        drop_last: Drop the last batch if it is short.
        augmentation: Augmentation of the images (default: none).
        order: Generator of the order of samples (default: the order of `indices`).
        augment: Generator of the augmentation.
        memory_format: `torch.channels_last` for convolutional networks on a GPU.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        batch_size: int,
        mean: Sequence[float],
        std: Sequence[float],
        indices: Tensor | None = None,
        drop_last: bool = False,
        augmentation: Augmentation | None = None,
        order: torch.Generator | None = None,
        augment: torch.Generator | None = None,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__(images, labels, batch_size, indices, order, drop_last)
        self.augmentation = augmentation or Augmentation()
        self.augmenter = Augmenter(images, self.augmentation, mean, std)
        self.augment, self.memory_format = augment, memory_format

    def _columns(self, samples: int) -> list[Tensor]:
        return [draw(self.augmentation, samples, self.augmenter.height, self.augmenter.width, self.augment)]

    def batch(self, rows: Tensor) -> Batch:
        index, mine = rows[:, 0], group.share(len(rows))
        images = self.augmenter(index[mine], rows[mine, 1:])
        return Batch(index=index, images=images.contiguous(memory_format=self.memory_format), labels=self.labels[index])


class RowLoader(_Loader):
    """Yields batches of features as `images`, from standardised float32 rows, samples × columns, on the device."""

    def __init__(
        self,
        rows: Tensor,
        labels: Tensor,
        *,
        batch_size: int,
        indices: Tensor | None = None,
        order: torch.Generator | None = None,
    ) -> None:
        super().__init__(rows, labels, batch_size, indices, order)
        self.rows = rows

    def batch(self, rows: Tensor) -> Batch:
        index = rows[:, 0]
        return Batch(index=index, images=self.rows[index[group.share(len(rows))]], labels=self.labels[index])
