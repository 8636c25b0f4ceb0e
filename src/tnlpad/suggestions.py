"""Suggest the known name that is most similar to an unknown one, for error messages."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.5  # similarity from 0 to 1: "food" suggests food101, and "x" nothing


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=CUTOFF)), None)
