"""Ctrl-C: while the command is loaded or ends, exit with code 130 and one line, since there is nothing to clean up.

While a verb runs, Ctrl-C raises KeyboardInterrupt. Libraries written in C may lose it and fail with an error of their
own, so `was_interrupted` says whether there was one.

It is imported before anything else, and imports little itself: until then, Ctrl-C prints a traceback.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130
_received: list[int] = []


def leave(*_: object) -> "NoReturn":
    """End the process at once, also in the middle of an import, where an exception may be lost or changed."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def end_interrupted() -> "NoReturn":
    """End the process with the code of an interrupt, after what is registered for its end.

    `python -m` ends by a signal instead if an interrupt has met code that Python compiles from text, as dataclasses do.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


def leave_when_interrupted() -> None:
    """Let Ctrl-C end the process at once, unless it is ignored, as in the background of a script.

    After everything registered for the end, only Python's own cleaning up is left, which restores the default: death by
    the signal. The command has finished by then, so Ctrl-C is ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # registered first, called last


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed while a verb was running."""
    return bool(_received)


def _interrupt(number: int, frame: object) -> None:
    _received.append(number)
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within the block if it would end the process otherwise."""
    leaving = signal.getsignal(signal.SIGINT) is leave
    try:
        if leaving:
            signal.signal(signal.SIGINT, _interrupt)
        yield
    finally:
        if leaving:
            signal.signal(signal.SIGINT, leave)
