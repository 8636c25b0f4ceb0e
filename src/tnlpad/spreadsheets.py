"""Find cells of CSV files that a spreadsheet takes for formulas: names in a table may come from strangers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
SHOWN_LENGTH = 40


class Formulas:
    """Detect formulas in rows before they are written; `safe` writes an apostrophe before them."""

    def __init__(self, safe: bool = False) -> None:
        self.safe = safe
        self.first: str | None = None

    def passed(self, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Yield the rows, with their formulas made text if that is wanted."""
        for row in rows:
            if any(map(is_formula, row)):
                if self.first is None:
                    self.first = next(filter(is_formula, row))
                yield [f"'{cell}" if self.safe and is_formula(cell) else cell for cell in row]
            else:
                yield row

    def note(self, where: object, verb: str) -> str | None:
        """Return a sentence if a file has formulas; `verb` has the option that makes them text."""
        if self.first is None or self.safe:
            return None
        return (
            f"{where} has cells that a spreadsheet takes for formulas, such as {self.first[:SHOWN_LENGTH]!r}. "
            f"`{verb} --spreadsheet-safe` writes an apostrophe before them."
        )


def is_formula(cell: object) -> bool:
    """Return whether a spreadsheet may take a cell for a formula. Numbers are none."""
    return isinstance(cell, str) and cell.startswith(STARTS) and not NUMBER.fullmatch(cell)
