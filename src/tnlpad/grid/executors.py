"""Run jobs in worker processes on this machine, or in this process. `grid.ray` uses several machines.

A job that raises is reported and not retried, since it would raise again. A job whose process dies (killed, out of
memory, crashed) is retried in another process a few times. The other jobs continue in either case.
"""

import pickle
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tnlpad.grid.workers import Response, Worker, describe, stop_all, use_one_thread, wait_for_any

Job = TypeVar("Job")
Value = TypeVar("Value")
Admit = Callable[[Job, Sequence[Job]], Mapping[str, str] | None]


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Job, Value]):
    """Result of a job.

    Args:
        job: The job.
        value: Return value of the function; None if it failed.
        error: Type and message of the last failure; None if there is a value.
        attempts: Number of attempts.
        traceback: Traceback of the exception, if one was raised.
    """

    job: Job
    value: Value | None
    error: str | None
    attempts: int
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attempt(Generic[Job]):
    """A running job."""

    job: Job
    number: int = 1

    def outcome(self, response: Response) -> Outcome[Job, Any]:
        """Return the outcome of the job; a value that cannot be unpickled counts as a failure."""
        if response.value is None:
            return self._failure(response.error or "", response.traceback)
        try:
            value = pickle.loads(response.value)
        except Exception as error:
            return self._failure(describe(error), traceback.format_exc())
        return Outcome(job=self.job, value=value, error=None, attempts=self.number)

    def after_death(self, cause: str, retries: int) -> "Attempt[Job] | Outcome[Job, Any]":
        """Return the next attempt, or the outcome if there are no retries left."""
        if self.number <= retries:
            return Attempt(job=self.job, number=self.number + 1)
        return self._failure(f"The job's process {cause}; attempts: {self.number}.", None)

    def _failure(self, error: str, where: str | None) -> Outcome[Job, Any]:
        return Outcome(job=self.job, value=None, error=error, attempts=self.number, traceback=where)


def execute(
    function: Callable[[Job], Value],
    jobs: Iterable[Job],
    *,
    workers: int,
    retries: int = 2,
    admit: Admit[Job] | None = None,
) -> Generator[Outcome[Job, Value], None, None]:
    """Run all jobs and yield their outcomes as they finish; close the generator to stop at once.

    A slow consumer does not delay the start of further jobs. Use `contextlib.closing`, since an exception in the
    consumer does not close a generator while a reference to it exists.

    Args:
        function: Called with a job. With workers both must be picklable, and the main module importable
            (`if __name__ == "__main__":`).
        jobs: Plain data, in the order in which to start them.
        workers: Maximum number of processes, started when needed. 0 runs the jobs in this process: it starts at once,
            but a crash ends everything and nothing is retried.
        retries: How often to retry a job whose process died.
        admit: Called every second with the next job and the running ones. It returns the environment variables with
            which the job may start, or None if it has to wait; a single job must not have to.
    """
    for name, value in (("workers", workers), ("retries", retries)):
        if value < 0:
            raise ValueError(f"{name}={value}: must be at least 0.")
    return _in_processes(function, jobs, workers, retries, admit) if workers else _in_this_process(function, jobs)


def _in_processes(
    function: Callable[[Job], Value],
    jobs: Iterable[Job],
    workers: int,
    retries: int,
    admit: Admit[Job] | None,
) -> Generator[Outcome[Job, Value], None, None]:
    waiting = deque(Attempt(job=job) for job in jobs)
    ended: list[Outcome[Job, Value]] = []
    idle: list[Worker] = []
    busy: dict[Worker, Attempt[Job]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                variables = admit(waiting[0].job, [attempt.job for attempt in busy.values()]) if admit else {}
                if variables is None:
                    break
                worker = _idle_or_new(idle, variables)
                busy[worker] = waiting.popleft()
                worker.send(function, busy[worker].job)
            yield from ended  # after the next jobs are started, so that a slow consumer does not delay them
            ended.clear()
            for worker in wait_for_any(busy, at_most_once=admit is not None):
                attempt, response = busy.pop(worker), worker.receive()
                if response is None:
                    result = attempt.after_death(worker.cause_of_death(), retries)
                elif response.out_of_memory and busy:  # the others may have taken it
                    workers = len(busy)
                    result = attempt.after_death(f"failed ({response.error})", retries)
                else:
                    result = attempt.outcome(response)
                if isinstance(result, Outcome):
                    ended.append(result)
                else:
                    waiting.append(result)  # after the others: there may be more memory later
                if response is not None and response.reusable:
                    idle.append(worker)
                else:  # it ends by itself: to kill a process that has a GPU can disturb others on it, under MPS
                    stop_all(idle=[worker], busy=())
        yield from ended
    finally:
        stop_all(idle=idle, busy=busy)


def _idle_or_new(idle: list[Worker], variables: Mapping[str, str]) -> Worker:
    """Return a worker with these environment variables; an idle one with others is replaced by a new one."""
    for worker in idle:
        if worker.variables == variables:
            idle.remove(worker)
            return worker
    if idle:
        stop_all(idle=[idle.pop()], busy=())
    return Worker(variables)


def _in_this_process(
    function: Callable[[Job], Value], jobs: Iterable[Job]
) -> Generator[Outcome[Job, Value], None, None]:
    for job in jobs:
        with _one_thread():
            try:
                outcome = Outcome[Job, Value](job=job, value=function(job), error=None, attempts=1)
            except Exception as error:
                where = traceback.format_exc()
                outcome = Outcome(job=job, value=None, error=describe(error), attempts=1, traceback=where)
        yield outcome


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(before)
