"""Batches of rows of numbers, for tabular data: what `DeviceLoader` is to images, with nothing to augment."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tnlpad.types import Batch


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
