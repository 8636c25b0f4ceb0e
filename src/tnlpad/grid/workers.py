"""Processes that carry out jobs: one at a time, sent and answered over a pipe, each with one torch thread.

A worker belongs to the process that started it. It ends when it is stopped, and by itself when that process is gone,
even by SIGKILL: an orphan would go on training for no one and hold a run's lock. It leaves Ctrl-C to its parent, and
what jobs print goes to stderr, since the parent's stdout is for results.
"""

import gc
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_DIE = 10.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a job, as plain data: an exception itself may not be picklable."""

    value: bytes | None = None  # pickled, as the receiver alone knows what to do when it cannot be read
    error: str | None = None
    traceback: str | None = None
    reusable: bool = True  # whether the process that answers can take another job


def answer(task: bytes) -> Answer:
    """Carry out a pickled (function, job); whatever goes wrong is in the answer."""
    try:
        function, job = pickle.loads(task)
        return Answer(value=pickle.dumps(function(job)))
    except (Exception, SystemExit) as error:
        return Answer(error=in_words(error), traceback=traceback.format_exc(), reusable=not _uses_cuda())


def in_words(error: BaseException) -> str:
    """The exception's type and message, also when it fails to say the latter."""
    return "".join(traceback.format_exception_only(error)).strip()


class Worker:
    """A process of its own, started at once; it has at most one job at a time."""

    def __init__(self) -> None:
        # "spawn" on every platform: a forked process inherits torch's thread pool in an unusable state.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        # A daemon: should nobody stop it, this process does at its end.
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_held_back():
            self._process.start()
        theirs.close()

    def give(self, function: Callable[[Any], Any], job: Any) -> None:
        """To one that has no job: both are pickled, and what cannot be raises here."""
        task = pickle.dumps((function, job))
        with suppress(OSError):  # it has died; `answer` will say so
            self._connection.send_bytes(task)

    def answer(self) -> Answer | None:
        """The answer to the job that it was given, or None if it died over it; for a worker that `ready` named."""
        try:
            if self._connection.poll():
                received: Answer = pickle.loads(self._connection.recv_bytes())
                return received
        except (EOFError, OSError):  # nothing, or half an answer
            pass
        return None

    def cause_of_death(self) -> str:
        """In words that follow "the process"; for a worker that gave no answer."""
        self._process.join(SECONDS_TO_DIE)
        code = self._process.exitcode
        if code is None:
            return "stopped answering"
        if code >= 0:
            return f"ended with exit status {code}"
        names = {known.value: known.name for known in signal.Signals}
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"was killed by {names.get(-code, f'signal {-code}')}{hint}"

    def stop(self) -> None:
        """Whatever it is doing: records bear a kill at any instant."""
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process.close()


def ready(workers: Collection[Worker]) -> list[Worker]:
    """Wait until some of them have answered or died, and return those."""
    while True:
        answered = connection.wait([worker._connection for worker in workers], timeout=SECONDS_BETWEEN_LOOKS)
        # A process that a job left behind may keep a dead worker's pipe open, so look after the worker itself as well.
        found = [worker for worker in workers if worker._connection in answered or not worker._process.is_alive()]
        if found:
            return found


def stop_all(*, idle: Collection[Worker], busy: Collection[Worker]) -> None:
    """All at once, not one after the other.

    Idle ones end by themselves when nobody is at the other end of their pipe: whoever is killed cannot clear up, and
    leaves multiprocessing's semaphores to be complained about. Busy ones do not listen, and are not waited for.
    """
    for worker in busy:
        worker._process.kill()
    for worker in idle:
        worker._connection.close()
    last = time.monotonic() + SECONDS_TO_DIE
    for worker in idle:
        worker._process.join(max(0.0, last - time.monotonic()))
    for worker in (*idle, *busy):
        worker.stop()


# In the worker's process ----------------------------------------------------------------------------------------------


def _work(tasks: connection.Connection) -> None:
    _die_with_parent()
    if sys.stderr is not None:
        os.dup2(2, 1)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # or each worker would start one for every core
    use_one_thread()
    with suppress(EOFError, OSError):  # no more jobs, or no one to answer
        while True:
            answered = answer(tasks.recv_bytes())
            tasks.send_bytes(pickle.dumps(answered))
            _forget_the_job()


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()  # returns when the parent is gone, however it went
        os._exit(1)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def use_one_thread() -> None:
    """So that a run's numbers do not depend on how many run at once.

    Nor are small tensors worth sharing between threads: for the demo a second one doubles the CPU time in vain.
    """
    import torch

    torch.set_num_threads(1)


def _forget_the_job() -> None:
    """A run leaves the next one no less memory."""
    import torch

    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


def _uses_cuda() -> bool:
    """After a failure on a GPU its context may be unusable, and every further job in this process would fail."""
    return "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal, but only the parent should answer it.

    A process started within the block never sees one; one that comes meanwhile reaches this process after it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # multiprocessing starts it with its first process, and lets interrupts in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
