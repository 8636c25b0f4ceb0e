"""A value that is computed when it is first needed, by one of many threads."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from tnlpad.review.memory import release_memory

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
