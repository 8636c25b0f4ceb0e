"""A worker by itself; `test_executors` has workers at work."""

import gc
import os
import signal
from types import SimpleNamespace

import pytest
import torch

from tests.time_limit import time_limit
from tnlpad.grid import workers
from tnlpad.grid.workers import Worker, wait_for_any


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(60):
        yield


@pytest.mark.parametrize("given", ["before", "after"])
def test_a_worker_that_died_before_it_took_its_job_is_known_by_its_silence(given):
    """While it started, the job unread, or while it had none."""
    worker = Worker()
    try:
        if given == "before":
            worker.send(abs, -1)
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.join()
        if given == "after":
            worker.send(abs, -1)
        assert wait_for_any([worker]) == [worker]
        assert worker.receive() is None
        assert worker.cause_of_death() == "was killed by SIGKILL (out of memory?)"
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "stopped responding"),
        (0, "ended with exit status 0"),
        (3, "ended with exit status 3"),
        (-signal.SIGKILL, r"was killed by SIGKILL (out of memory?)"),
        (-signal.SIGTERM, "was killed by SIGTERM"),
        (-200, "was killed by signal 200"),
    ],
)
def test_how_a_process_ended_in_words(code, words):
    worker = Worker.__new__(Worker)
    worker._process = SimpleNamespace(join=lambda seconds: None, exitcode=code)
    assert worker.cause_of_death() == words


def test_interrupts_are_held_back_and_then_as_before():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        with workers._interrupts_blocked():
            signal.raise_signal(signal.SIGINT)  # to this thread: another one would take it at once
            assert not pressed
        assert pressed
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with workers._interrupts_blocked():
                pass
            assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])  # of someone who blocks them already
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("initialised", "cleared"), [(True, ["collected", "emptied"]), (False, [])])
def test_memory_of_a_gpu_is_cleared_where_there_is_one(monkeypatch, initialised, cleared):
    done = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
    monkeypatch.setattr(gc, "collect", lambda: done.append("collected"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    workers._free_gpu_memory()
    assert done == cleared
