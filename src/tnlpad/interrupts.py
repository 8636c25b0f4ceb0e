"""Ctrl-C: while the command is loaded or ends, exit with code 130 and one line, since there is nothing to clean up.

While a verb runs, Ctrl-C raises KeyboardInterrupt. Libraries written in C may lose it and fail with an error of their
own, so `was_interrupted` says whether there was one. Some abort the process if it comes while they are imported, so it
waits until the import is over.

It is imported before anything else, and imports little itself: until then, Ctrl-C prints a traceback.
"""

import _thread
import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED = 130
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load")  # file and name of the function that imports a module
SECONDS_BETWEEN_TRIES = 0.02  # while a module is imported
_received: list[int] = []


def leave(*_: object) -> "NoReturn":
    """End the process at once, also in the middle of an import, where an exception may be lost or changed."""
    with suppress(OSError, ValueError):
        if sys.__stderr__ is not None:  # else it was closed before the start, and a file may have its number
            os.write(sys.__stderr__.fileno(), b"Interrupted.\n")
    os._exit(INTERRUPTED)


def end_interrupted() -> "NoReturn":
    """End the process with the code of an interrupt, after what is registered for its end.

    `python -m` ends by a signal instead if an interrupt has met code that Python compiles from text, as dataclasses do.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if stream is not None:
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


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within the block if it would end the process otherwise."""
    leaving = signal.getsignal(signal.SIGINT) is leave
    before = _imports(sys._getframe())

    def interrupt(number: int, frame: "FrameType | None") -> None:
        if _imports(frame) > before:
            _thread.start_new_thread(_send_again, (number, _thread.get_ident()))
            return
        _received.append(number)
        raise KeyboardInterrupt

    try:
        if leaving:
            signal.signal(signal.SIGINT, interrupt)
        yield
    finally:
        if leaving:
            signal.signal(signal.SIGINT, leave)


def _imports(frame: "FrameType | None") -> int:
    """Return how many modules are being imported by a frame and its callers."""
    count = 0
    while frame is not None:
        count += (frame.f_code.co_filename, frame.f_code.co_name) == IMPORT
        frame = frame.f_back
    return count


def _send_again(number: int, thread: int) -> None:
    time.sleep(SECONDS_BETWEEN_TRIES)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, number)
    else:  # Windows, where a sleeping thread notices it later
        _thread.interrupt_main()
