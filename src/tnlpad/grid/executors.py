"""Where the runs of a grid take place: in processes on this machine, or in this one. `ray_executor` has many machines.

A job that raises is reported and not tried again: it would raise again. A job whose process dies (killed, out of
memory, crashed) is tried again in another process, a few times. Either way the other jobs go on.
"""

import pickle
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tnlpad.grid.workers import Answer, Worker, in_words, ready, stop_all, use_one_thread

Job = TypeVar("Job")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Job, Value]):
    """How a job ended.

    Args:
        job: As given.
        value: What the function returned; None if it failed.
        error: Type and message of the last failure; None if there is a value.
        attempts: How often the job was started.
        traceback: Where it was raised, if it was.
    """

    job: Job
    value: Value | None
    error: str | None
    attempts: int
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attempt(Generic[Job]):
    """A job on its way."""

    job: Job
    number: int = 1

    def outcome(self, answer: Answer) -> Outcome[Job, Any]:
        """The end of the job; a value that cannot be read here is a failure like any other."""
        if answer.value is None:
            return self._failure(answer.error or "", answer.traceback)
        try:
            value = pickle.loads(answer.value)
        except Exception as error:
            return self._failure(in_words(error), traceback.format_exc())
        return Outcome(job=self.job, value=value, error=None, attempts=self.number)

    def after_death(self, cause: str, retries: int) -> "Attempt[Job] | Outcome[Job, Any]":
        """The next attempt if there is one, else the end."""
        if self.number <= retries:
            return Attempt(job=self.job, number=self.number + 1)
        return self._failure(f"The job's process {cause}; attempts: {self.number}.", None)

    def _failure(self, error: str, where: str | None) -> Outcome[Job, Any]:
        return Outcome(job=self.job, value=None, error=error, attempts=self.number, traceback=where)


def execute(
    function: Callable[[Job], Value], jobs: Iterable[Job], *, workers: int, retries: int = 2
) -> Generator[Outcome[Job, Value], None, None]:
    """Carry out every job and yield how it ended, in the order in which they end; close the generator to stop at once.

    A slow consumer keeps no worker waiting for its next job. Use `contextlib.closing`: an exception in the consumer
    does not close a generator before the last reference to it is gone.

    Args:
        function: Called with a job. With workers both must be picklable, and the main module one that can be imported
            again (`if __name__ == "__main__":`).
        jobs: Plain data, in the order in which to start them.
        workers: How many processes to use at most; they are started when first needed. 0 is this process, which is
            simple and starts at once, but a crash takes everything with it and nothing is tried again.
        retries: How often to start a job again whose process died.
    """
    for name, value in (("workers", workers), ("retries", retries)):
        if value < 0:
            raise ValueError(f"{name}={value}: must be at least 0.")
    return _in_processes(function, jobs, workers, retries) if workers else _here(function, jobs)


def _in_processes(
    function: Callable[[Job], Value], jobs: Iterable[Job], workers: int, retries: int
) -> Generator[Outcome[Job, Value], None, None]:
    waiting = deque(Attempt(job=job) for job in jobs)
    ended: list[Outcome[Job, Value]] = []
    idle: list[Worker] = []
    busy: dict[Worker, Attempt[Job]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else Worker()
                busy[worker] = waiting.popleft()
                worker.give(function, busy[worker].job)
            yield from ended  # only now, so that the consumer keeps nobody waiting
            ended.clear()
            for worker in ready(busy):
                attempt, answer = busy.pop(worker), worker.answer()
                if answer is None:
                    result = attempt.after_death(worker.cause_of_death(), retries)
                else:
                    result = attempt.outcome(answer)
                if isinstance(result, Outcome):
                    ended.append(result)
                else:
                    waiting.append(result)  # behind the others: in want of memory, later is better
                if answer is not None and answer.reusable:
                    idle.append(worker)
                else:
                    worker.stop()
        yield from ended
    finally:
        stop_all(idle=idle, busy=busy)


def _here(function: Callable[[Job], Value], jobs: Iterable[Job]) -> Generator[Outcome[Job, Value], None, None]:
    for job in jobs:
        with _one_thread():
            try:
                outcome = Outcome[Job, Value](job=job, value=function(job), error=None, attempts=1)
            except Exception as error:
                where = traceback.format_exc()
                outcome = Outcome(job=job, value=None, error=in_words(error), attempts=1, traceback=where)
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
