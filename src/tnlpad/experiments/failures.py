"""What becomes of what goes wrong: words for what a person can mend, a traceback for a bug, the end for a full disk."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tnlpad.data.errors import DataError
from tnlpad.experiments.executors import Outcome
from tnlpad.records.store import RecordError, is_disk_full
from tnlpad.training.loop import Diverged

# What a person can do something about, and what would happen again: not tried twice, told without a traceback.
EXPECTED = (DataError, RecordError, Diverged, ValueError, OSError)


class DiskFull(Exception):
    """There is no space left for a run, nor for any other; the message names the way out."""


class Result(NamedTuple):
    """What a worker answers; `busy` means that another process is at this run."""

    state: Literal["done", "busy", "failed", "disk full"]
    error: str | None = None
    traceback: str | None = None  # where an error was raised that nobody expected
    test_accuracy: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What went wrong, and the file that says where in the code, if it is a bug."""

    error: str
    traceback: Path | None = None

    def __str__(self) -> str:
        return self.error if self.traceback is None else f"{self.error} (traceback: {self.traceback})"


def failed(error: Exception, *, expected: bool = True) -> Result:
    """The answer to an error that a person can do something about; any other is raised again, as a bug.

    Args:
        error: What was raised, and is being handled.
        expected: False to say where it came from, though it is of a kind that is told without.
    """
    if is_disk_full(error):
        return Result("disk full", error=str(error))
    if not isinstance(error, EXPECTED):
        raise error
    words = str(error) or type(error).__name__
    return Result("failed", error=words, traceback=None if expected else traceback.format_exc())


def answer_of(outcome: Outcome[Any, Result]) -> Result:
    """What a worker answered, or what is known where it could not; raises where the disk is full."""
    result = outcome.value or Result("failed", error=outcome.error, traceback=outcome.traceback)
    if result.state == "disk full":
        raise DiskFull(
            f"The disk is full ({result.error}), so nothing further was tried. Finished runs are kept: free some "
            "space, and run the command again."
        )
    return result


def kept(text: str | None, keep: Callable[[str], Path]) -> Path | None:
    """The file that a traceback is in; None where there is none, or no way to write it."""
    if text is None:
        return None
    with suppress(OSError, RecordError):
        return keep(text)
    return None
