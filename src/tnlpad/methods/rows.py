"""Images that a method draws by itself, as a table on the device: drawn for a whole epoch, read row by row.

A step of a method must have a fixed shape and nothing random in it, if it is to be captured as a CUDA graph. So what is
random is drawn beforehand, as in the loader: `Rows.fill` writes a table, one row for each image that a step takes, and
`Rows.next` reads as many rows as it is asked for and moves on, by a counter that lies on the device as well. A set
smaller than the table is gone through again and again, in a new order each time (`cycled`).
"""

import torch
from torch import Tensor


def cycled(index: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """So many entries of a set, in a random order: all of them once, then all of them again, and so on."""
    if len(index) == 0:
        raise ValueError("No samples to draw from: the set is empty.")
    rounds = -(-count // len(index))
    orders = [torch.randperm(len(index), generator=generator) for _ in range(rounds)]
    return index[torch.cat(orders)[:count]]


class Rows:
    """A table of fixed size; its tensors keep their address, and belong to a method's state."""

    def __init__(self, rows: int, columns: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self.table = torch.zeros(rows, columns, dtype=dtype, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)

    def fill(self, table: Tensor) -> None:
        """Start over with these rows."""
        self.table.copy_(table, non_blocking=True)
        self.place.zero_()

    def next(self, count: int) -> Tensor:
        """The next so many rows; after the last one comes the first."""
        wanted = (self.place + torch.arange(count, device=self.place.device)).remainder(len(self.table))
        self.place += count
        return self.table[wanted]

    @property
    def share(self) -> Tensor:
        """How much of the table has been read; all of it, while it is read again."""
        return (self.place / len(self.table)).clamp(max=1)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """To be saved."""
        return {f"{name}_table": self.table, f"{name}_place": self.place}
