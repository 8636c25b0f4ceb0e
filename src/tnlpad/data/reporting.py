"""How long work tells whoever waits for it what goes on. The command line shows lines and bars; a library is silent."""

from typing import Protocol


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
