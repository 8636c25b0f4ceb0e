"""Report the progress of long work, and map a function over many items in threads."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

GROUP_SIZE = 256  # items between two progress reports
Item = TypeVar("Item")
Result = TypeVar("Result")


class Reporter(Protocol):
    """Receives messages and progress. The command line shows them; the library uses `SILENT`."""

    def say(self, message: str) -> None:
        """Take one line: which source is tried, why the last one failed, what is done next."""

    def progress(self, task: str, done: int, total: int) -> None:
        """Take the progress of a task in bytes or files; `done == total` ends it."""


class Silent:
    """Ignore everything."""

    def say(self, message: str) -> None: ...

    def progress(self, task: str, done: int, total: int) -> None: ...


SILENT = Silent()


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    task: str,
    reporter: Reporter,
    *,
    before: int = 0,
    total: int | None = None,
) -> Iterator[Result]:
    """Yield the function's result for each item, in order, and report progress after every group.

    Items that are a part of more work come after `before` others of `total`.
    """
    # Threads suffice: image decoders release the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), GROUP_SIZE):
            group = items[start : start + GROUP_SIZE]
            yield from pool.map(function, group)
            reporter.progress(task, before + start + len(group), len(items) if total is None else total)
