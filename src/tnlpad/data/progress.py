"""How long work tells whoever waits for it what goes on. The command line shows lines and bars; a library is silent.

One function of many images, in threads, with word of how far it has come.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar


class Reporter(Protocol):
    """Takes words about what happens and how far a task has come."""

    def say(self, message: str) -> None:
        """One line: which source is tried, why the last one failed, what is done next."""

    def progress(self, task: str, done: int, total: int) -> None:
        """So much of a task is done, in bytes or files; `done == total` ends it."""


class Silent:
    """For callers who only want the result."""

    def say(self, message: str) -> None: ...

    def progress(self, task: str, done: int, total: int) -> None: ...


SILENT = Silent()


AT_ONCE = 256
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], task: str, reporter: Reporter
) -> Iterator[Result]:
    """What the function gives for each, in order; the reporter hears of the task after every few hundred."""
    # Threads suffice: the decoder does its work outside the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), AT_ONCE):
            group = items[start : start + AT_ONCE]
            yield from pool.map(function, group)
            reporter.progress(task, start + len(group), len(items))
