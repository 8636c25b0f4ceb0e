"""A value that is computed when it is first needed, by one of many threads."""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Once(Generic[Value]):
    """Calls a function once: the first caller computes its value, and all others wait for it.

    If the function raises, so does this call, and the next caller tries again.
    """

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute = compute
        self._values: list[Value] = []
        self._lock = Lock()

    def __call__(self) -> Value:
        with self._lock:
            if not self._values:
                self._values.append(self._compute())
                release_memory()
            return self._values[0]


def release_memory() -> None:
    """Return memory to the system that reading a file has left behind, which Arrow and the C library would keep."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)
