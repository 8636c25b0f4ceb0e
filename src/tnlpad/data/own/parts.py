"""The parts of a dataset, by the words that people use for them."""

from pathlib import Path
from typing import Any, Literal

from tnlpad.data.errors import DataError

Part = Literal["train", "validation", "test"]
PARTS: dict[str, Part] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "eval": "validation",
    "test": "test",
    "testing": "test",
}


def part_named(text: Any, where: Path | str) -> Part:
    """The part that a word such as `val` means; nothing said means training."""
    word = "" if text is None else str(text).strip().lower()
    if word and word not in PARTS:
        raise DataError(f"{where}: {str(text)[:80]!r} is no part of a dataset. Write train, validation or test.")
    return PARTS[word] if word else "train"
