"""Random draws of a method for one epoch, as a table on the device.

A captured step has fixed shapes and draws nothing at random. So a method draws beforehand, as the loader does:
`Rows.fill` writes a table with one row per image that a step takes, and `Rows.next` reads the next rows. The position
in the table is a device tensor as well. `cycled` repeats a set that is smaller than the table, in a new order each
time.
"""

import torch
from torch import Tensor


def cycled(index: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` entries in random order: every entry once, then every entry again, and so on."""
    if len(index) == 0:
        raise ValueError("No samples to draw from: the set is empty.")
    rounds = -(-count // len(index))
    orders = [torch.randperm(len(index), generator=generator) for _ in range(rounds)]
    return index[torch.cat(orders)[:count]]


class Rows:
    """A table of fixed size. Its tensors keep their address, and are part of a method's state."""

    def __init__(self, rows: int, columns: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self.table = torch.zeros(rows, columns, dtype=dtype, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)

    def fill(self, table: Tensor) -> None:
        """Replace the rows and return to the first one."""
        self.table.copy_(table, non_blocking=True)
        self.place.zero_()

    def next(self, count: int) -> Tensor:
        """Return the next `count` rows; the first row follows the last."""
        wanted = (self.place + torch.arange(count, device=self.place.device)).remainder(len(self.table))
        self.place += count
        return self.table[wanted]

    def share_of(self, rows: Tensor | int) -> Tensor:
        """Return how many rows have been read, relative to this number; at most 1, even if they are read again."""
        return (self.place / rows).clamp(max=1)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors to save."""
        return {f"{name}_table": self.table, f"{name}_place": self.place}
