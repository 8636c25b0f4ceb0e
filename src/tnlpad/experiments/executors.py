"""Where training runs take place: here, one after the other, or in processes of their own on this machine.

Each run has one thread either way, so that its numbers do not depend on how many run at once.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

import torch

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_local(
    function: Callable[[Job], Outcome], jobs: Sequence[Job], *, workers: int
) -> Generator[tuple[Job, Outcome], None, None]:
    """Yield every job with its outcome as soon as it is there; close the generator to stop early.

    Args:
        function: Called with a job; with several workers both must be picklable.
        jobs: In the order in which to start them.
        workers: 1 runs them in this process. More than one needs a main module that can be imported again
            (`if __name__ == "__main__":`).
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: must be at least 1.")
    return _one_by_one(function, jobs) if workers == 1 else _in_processes(function, jobs, workers)


def _one_by_one(function: Callable[[Job], Outcome], jobs: Sequence[Job]) -> Generator[tuple[Job, Outcome], None, None]:
    for job in jobs:
        with _one_thread():
            outcome = function(job)
        yield job, outcome


def _in_processes(
    function: Callable[[Job], Outcome], jobs: Sequence[Job], workers: int
) -> Generator[tuple[Job, Outcome], None, None]:
    # "spawn" on every platform: a forked process inherits torch's thread pool in an unusable state.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_use_one_thread)
    others = set(active_children())
    try:
        with _children_ignore_interrupts():
            pending = {pool.submit(function, job): job for job in jobs}
        for finished in as_completed(pending):
            yield pending[finished], finished.result()
    except BaseException:
        for child in set(active_children()) - others:  # their results are wanted no more: do not wait for them
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _use_one_thread() -> None:
    # Small tensors are not worth sharing between threads: for the demo a second one doubles the CPU time in vain.
    torch.set_num_threads(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    _use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _children_ignore_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process of the terminal; only ours should answer it, the workers would print tracebacks.

    A process started while interrupts are ignored goes on ignoring them.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
