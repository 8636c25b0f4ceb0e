"""A table of numbers with gaps and of categories, as it is before it is encoded."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedTable:
    """Columns of numbers and of categories, with a row per sample.

    Args:
        number_columns: Names of the columns of numbers.
        numbers: float32, rows × columns; NaN where a number is missing.
        category_columns: Names of the columns of categories.
        categories: One list of values per column; None where a value is missing.
    """

    number_columns: tuple[str, ...]
    numbers: NDArray[np.float32]
    category_columns: tuple[str, ...]
    categories: tuple[Sequence[str | None], ...]

    def __post_init__(self) -> None:
        shape = (len(self.numbers), len(self.number_columns))
        if self.numbers.shape != shape or len(self.categories) != len(self.category_columns):
            raise ValueError(f"numbers have shape {self.numbers.shape} and there must be a column for each name.")
        if any(len(values) != len(self.numbers) for values in self.categories):
            raise ValueError(f"each category column must have {len(self.numbers):,} values, one per row.")

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> tuple[str, ...]:
        """All column names, those of numbers first."""
        return (*self.number_columns, *self.category_columns)

    @property
    def by_category(self) -> dict[str, Sequence[str | None]]:
        """The values of each column of categories, by its name."""
        return dict(zip(self.category_columns, self.categories, strict=True))

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> "MixedTable":
        """Return some rows, in this order."""
        return MixedTable(
            number_columns=self.number_columns,
            numbers=self.numbers[rows],
            category_columns=self.category_columns,
            categories=tuple([values[row] for row in rows] for values in self.categories),
        )

    def digests(self) -> Iterator[bytes]:
        """Yield the SHA-256 of each row."""
        numbers = np.where(np.isnan(self.numbers), np.float32(np.nan), self.numbers)  # one pattern of bits for all NaN
        for row, values in enumerate(numbers):
            digest = hashlib.sha256(values.tobytes())
            for column in self.categories:
                value = column[row]
                content = b"" if value is None else value.encode()
                # A length of −1 tells a missing value from an empty one.
                digest.update((-1 if value is None else len(content)).to_bytes(8, "big", signed=True) + content)
            yield digest.digest()
