"""Worker processes: each runs one job at a time with one torch thread, and talks to its parent over a pipe.

A worker exits when it is stopped, or when its parent is gone, even by SIGKILL: an orphan would go on training and hold
a run's lock. Workers ignore Ctrl-C, which the parent handles. The output of jobs goes to stderr, since the parent's
stdout is for results.
"""

import gc
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any

POLL_SECONDS = 1.0
EXIT_TIMEOUT_SECONDS = 10.0
GPU_MEMORY_ERRORS = ("CUDA out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True, kw_only=True)
class Response:
    """Result of a job as plain data, since exceptions may not be picklable."""

    value: bytes | None = None  # pickled, so that the receiver can handle a value that it cannot load
    error: str | None = None
    traceback: str | None = None
    reusable: bool = True  # whether the process can take another job
    out_of_memory: bool = False  # of a GPU, which other processes use as well


def run_task(task: bytes) -> Response:
    """Run a pickled (function, job); errors are part of the response."""
    try:
        function, job = pickle.loads(task)
        return Response(value=pickle.dumps(function(job)))
    except (Exception, SystemExit) as error:
        what, where = describe(error), traceback.format_exc()
        lacks_memory = any(words in what for words in GPU_MEMORY_ERRORS)
        return Response(error=what, traceback=where, reusable=not _uses_cuda(), out_of_memory=lacks_memory)


def describe(error: BaseException) -> str:
    """Return an exception's type and message, even if its `__str__` raises."""
    return "".join(traceback.format_exception_only(error)).strip()


class Worker:
    """A process with at most one job at a time, started by the constructor with some environment variables."""

    def __init__(self, variables: Mapping[str, str] = {}) -> None:
        self.variables = variables
        # "spawn" on every platform: a forked process inherits torch's thread pool in an unusable state.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        # A daemon, so that this process stops it on exit.
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_blocked(), environment(variables):
            self._process.start()
        theirs.close()

    def send(self, function: Callable[[Any], Any], job: Any) -> None:
        """Start a job on an idle worker; raises if function or job cannot be pickled."""
        task = pickle.dumps((function, job))
        with suppress(OSError):  # it has died: `receive` returns None
            self._connection.send_bytes(task)

    def receive(self) -> Response | None:
        """Return the response of a worker that `wait_for_any` returned, or None if it died."""
        try:
            if self._connection.poll():
                received: Response = pickle.loads(self._connection.recv_bytes())
                return received
        except (EOFError, OSError):  # no response, or a part of one
            pass
        return None

    def cause_of_death(self) -> str:
        """Describe why a worker died, in words that follow "the process"."""
        self._process.join(EXIT_TIMEOUT_SECONDS)
        code = self._process.exitcode
        if code is None:
            return "stopped responding"
        if code >= 0:
            return f"ended with exit status {code}"
        names = {known.value: known.name for known in signal.Signals}
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"was killed by {names.get(-code, f'signal {-code}')}{hint}"

    def stop(self) -> None:
        """Kill the process; records stay valid at any point."""
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process.close()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block; processes started in it inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def wait_for_any(workers: Collection[Worker], *, at_most_once: bool = False) -> list[Worker]:
    """Wait until some workers have responded or died, and return those; or for a second, if `at_most_once`."""
    while True:
        responded = connection.wait([worker._connection for worker in workers], timeout=POLL_SECONDS)
        # A process that a job has started may keep a dead worker's pipe open, so check the worker as well.
        found = [worker for worker in workers if worker._connection in responded or not worker._process.is_alive()]
        if found or at_most_once:
            return found


def stop_all(*, idle: Collection[Worker], busy: Collection[Worker]) -> None:
    """Stop workers in parallel.

    Idle workers exit when their pipe is closed. They are not killed, because a killed process leaks multiprocessing's
    semaphores and its parent prints a warning. Busy workers do not read their pipe, so they are killed.
    """
    for worker in busy:
        worker._process.kill()
    for worker in idle:
        worker._connection.close()
    last = time.monotonic() + EXIT_TIMEOUT_SECONDS
    for worker in idle:
        worker._process.join(max(0.0, last - time.monotonic()))
    for worker in (*idle, *busy):
        worker.stop()


# In the worker's process ----------------------------------------------------------------------------------------------


def _work(tasks: connection.Connection) -> None:
    _exit_with_parent()
    if sys.stderr is not None:
        os.dup2(2, 1)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # default: one thread per core in each worker
    use_one_thread()
    with suppress(EOFError, OSError):  # no more jobs, or the parent is gone
        while True:
            response = run_task(tasks.recv_bytes())
            tasks.send_bytes(pickle.dumps(response))
            if not response.reusable:
                return
            _free_gpu_memory()


def _exit_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()  # returns when the parent is gone
        os._exit(1)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def use_one_thread() -> None:
    """Limit torch to one thread, so that a run's numbers do not depend on how many run in parallel.

    For small tensors a second thread only costs CPU time: twice as much in the demo.
    """
    import torch

    torch.set_num_threads(1)


def _free_gpu_memory() -> None:
    import torch

    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


def _uses_cuda() -> bool:
    """Whether CUDA is in use: after an error its context may be unusable, and every further job would fail."""
    return "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT within the block: processes started in it never receive Ctrl-C, this one receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # otherwise started by the first process, which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
