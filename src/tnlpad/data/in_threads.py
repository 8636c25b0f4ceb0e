"""One function of many images, in threads, with word of how far it has come."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tnlpad.data.reporting import Reporter

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
