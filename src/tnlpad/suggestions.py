"""The known name nearest to one that is unknown, for messages that ask whether it was meant."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.5  # how alike two names must be, from 0 to 1: "food" is offered food101, and "x" nothing


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one that was probably meant; None if none is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=CUTOFF)), None)
