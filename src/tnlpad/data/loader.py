"""Batches from a dataset that fits on the device: one uint8 tensor, no worker processes, no copies from the host.

An epoch is a plan: a table with one row per sample, holding its dataset index and its augmentation (`augment.draw`), in
the order of training. It is drawn on the CPU from two streams of its own and sent to the device once. A batch is then a
slice of the plan and `batch(rows)` a function of that slice alone, so a whole training step can be captured as a CUDA
graph that is fed with rows.

Batches of rows of numbers, for tabular data: what `DeviceLoader` is to images, with nothing to augment.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tnlpad.data.augment import Augmentation, Augmenter, draw
from tnlpad.types import Batch


class DeviceLoader:
    """Yields `Batch(index, images, labels)`; index counts in the whole dataset, also when a part of it is loaded.

    Args:
        images: The dataset, uint8 of shape N × C × H × W, on the device to train on.
        labels: One label per image of the dataset.
        indices: The samples to load, such as the training part of a split; all when not given.
        batch_size: Samples per batch.
        drop_last: Leave out the last batch if it is short; kept by default.
        augmentation: What is done to the images; nothing by default.
        mean, std: Per channel, of pixel values in [0, 1].
        order: Stream of the order of samples; without one the order is that of `indices`.
        augment: Stream of the augmentation.
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
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: must be at least 1.")
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels: give one label per image.")
        self.indices = torch.arange(len(images)) if indices is None else torch.as_tensor(indices).long().cpu()
        if len(self.indices) == 0:
            raise ValueError("No samples to load: indices are empty.")
        if self.indices.min() < 0 or self.indices.max() >= len(images):
            raise ValueError(
                f"indices reach from {self.indices.min()} to {self.indices.max()}: 0..{len(images) - 1} exist."
            )
        if drop_last and len(self.indices) < batch_size:
            raise ValueError(f"drop_last leaves no batch of {batch_size} from {len(self.indices)} samples.")
        self.augmentation = augmentation or Augmentation()
        self.augmenter = Augmenter(images, self.augmentation, mean, std)
        self.labels = torch.as_tensor(labels).to(images.device)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.order, self.augment, self.memory_format = order, augment, memory_format

    def __len__(self) -> int:
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def plan(self) -> Tensor:
        """Draw an epoch: one row per sample in the order of training, its dataset index first; on the device."""
        index = self.indices
        if self.order is not None:
            index = index[torch.randperm(len(index), generator=self.order)]
        rows = draw(self.augmentation, len(index), self.augmenter.height, self.augmenter.width, self.augment)
        return torch.cat([index.unsqueeze(1), rows], dim=1).to(self.labels.device, non_blocking=True)

    def batch(self, rows: Tensor) -> Batch:
        """The batch that some rows of a plan describe."""
        index = rows[:, 0]
        images = self.augmenter(index, rows[:, 1:])
        return Batch(index=index, images=images.contiguous(memory_format=self.memory_format), labels=self.labels[index])

    def __iter__(self) -> Iterator[Batch]:
        plan = self.plan()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.batch(plan[start : start + self.batch_size])


class RowLoader:
    """Yields `Batch(index, images, labels)` where the images are rows of features.

    Args:
        rows: The dataset, float32 of shape samples × columns, on the device to train on, standardised.
        labels: One label per row.
        indices: The samples to load; index counts in the whole dataset.
        batch_size: Samples per batch.
        order: Stream of the order of samples; without one the order is that of `indices`.
    """

    def __init__(
        self,
        rows: Tensor,
        labels: Tensor,
        *,
        batch_size: int,
        indices: Tensor | None = None,
        order: torch.Generator | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: must be at least 1.")
        if len(rows) != len(labels):
            raise ValueError(f"{len(rows)} rows but {len(labels)} labels: give one label per row.")
        self.rows, self.labels = rows, torch.as_tensor(labels).to(rows.device)
        self.indices = torch.arange(len(rows)) if indices is None else torch.as_tensor(indices).long().cpu()
        if len(self.indices) == 0:
            raise ValueError("No samples to load: indices are empty.")
        self.batch_size, self.order = batch_size, order

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def plan(self) -> Tensor:
        """Draw an epoch: one row per sample in the order of training, holding its dataset index; on the device."""
        index = self.indices
        if self.order is not None:
            index = index[torch.randperm(len(index), generator=self.order)]
        return index.unsqueeze(1).to(self.labels.device, non_blocking=True)

    def batch(self, rows: Tensor) -> Batch:
        """The batch that some rows of a plan describe."""
        index = rows[:, 0]
        return Batch(index=index, images=self.rows[index], labels=self.labels[index])

    def __iter__(self) -> Iterator[Batch]:
        for rows in self.plan().split(self.batch_size):
            yield self.batch(rows)
