import os
import time
from contextlib import closing
from multiprocessing import active_children

import pytest
import torch

from tnlpad.experiments.executors import available_cores, run_local


def where(job):
    return job, os.getpid(), torch.get_num_threads()


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def fail(job):
    raise RuntimeError(f"job {job}")


def test_one_worker_is_this_process_with_one_thread_and_keeps_the_order():
    torch.set_num_threads(2)
    try:
        outcomes = list(run_local(where, [3, 1, 2], workers=1))
        assert outcomes == [(job, (job, os.getpid(), 1)) for job in (3, 1, 2)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_workers_are_processes_of_their_own():
    outcomes = dict(run_local(where, list(range(6)), workers=2))
    assert sorted(outcomes) == list(range(6))
    assert all(outcome[0] == job for job, outcome in outcomes.items())
    assert os.getpid() not in {process for _, process, _ in outcomes.values()}
    assert {threads for _, _, threads in outcomes.values()} == {1}
    assert active_children() == []


def test_closing_early_stops_the_workers():
    # Waiting for the long ones would take an hour.
    with closing(run_local(sleep, [0.0, 3600.0, 3601.0], workers=2)) as outcomes:
        assert next(outcomes) == (0.0, 0.0)
    assert active_children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_reaches_the_caller(workers):
    with pytest.raises(RuntimeError, match="job 7"):
        list(run_local(fail, [7], workers=workers))
    assert active_children() == []


def test_workers_must_be_at_least_one():
    with pytest.raises(ValueError, match="workers=0"):
        run_local(where, [1], workers=0)


def test_there_is_a_core():
    assert available_cores() >= 1
