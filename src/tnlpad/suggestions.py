"""Suggest the known names that are most similar to an unknown one, for error messages."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.5  # similarity from 0 to 1: "food" suggests food101, and "x" nothing


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None if none is similar."""
    return next(iter(similar(name, known, 1)), None)


def similar(name: str, known: Iterable[str], count: int) -> list[str]:
    """Return up to `count` known names that may have been meant, the most similar first."""
    return difflib.get_close_matches(name, list(known), n=count, cutoff=CUTOFF)
