import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing import active_children, get_context
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from tests.time_limit import time_limit
from tnlpad.grid.executors import execute
from tnlpad.runs.devices import available_cores

HERE_AND_THERE = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(120):
        yield
    assert active_children() == []


# Jobs


def hold_a_semaphore(job):
    """As libraries do that share something between processes."""
    global held
    held = get_context("spawn").Semaphore()
    return job


def where(job):
    return job, os.getpid(), torch.get_num_threads()


def compile_threads(job):
    return os.environ["TORCHINDUCTOR_COMPILE_THREADS"]


def interrupt(job):
    raise KeyboardInterrupt


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def wait_until_there(path):
    while not path.exists():
        time.sleep(0.01)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even a message")

    def __reduce__(self):
        raise TypeError("not to be pickled")


class OneWay:
    """Can be pickled and not read again."""

    def __reduce__(self):
        return _unreadable, ()


def _unreadable():
    raise ValueError("cannot be read here")


def act(job):
    """`raise` and the like are acted upon; anything else is returned."""
    match job:
        case "raise":
            raise RuntimeError("no luck")
        case "raise unspeakable":
            raise Unspeakable
        case "sys.exit":
            sys.exit("enough")
        case "return a function of its own":
            return lambda: None
        case "return what cannot be read":
            return OneWay()
        case "return megabytes":
            return b"x" * 5_000_000
        case "os._exit":
            os._exit(3)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "a signal without a name":
            os.kill(os.getpid(), 40)
    return job


def die_at_first(path):
    """Leaves a line for every attempt; the first one is killed."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    if len(path.read_text().split()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die_and_leave_a_child(path):
    """The child inherits the worker's pipes, and holds them open after the worker is gone."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
    path.write_text(str(child))
    os._exit(3)


def announce_and_sleep(path):
    with FileLock(path.with_suffix(".lock")):
        path.write_text(str(os.getpid()))
        time.sleep(3600)


def press_ctrl_c(path):
    """As a terminal does, to every process; this one first."""
    os.kill(os.getpid(), signal.SIGINT)
    path.write_text("still here")
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(3600)


def use_cuda_and_fail(job):
    torch.cuda.is_initialized = lambda: True
    raise RuntimeError(str(os.getpid()))


forgotten = []


def pretend_to_use_cuda(job):
    torch.cuda.is_initialized = lambda: True
    torch.cuda.empty_cache = lambda: forgotten.append(job)
    return list(forgotten)


# When all goes well


def test_no_workers_is_this_process_with_one_thread_and_keeps_the_order():
    torch.set_num_threads(2)
    try:
        seen = [(outcome.value, torch.get_num_threads()) for outcome in execute(where, [3, 1, 2], workers=0)]
        assert seen == [((job, os.getpid(), 1), 2) for job in (3, 1, 2)]  # the consumer has its threads in between
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_are_processes_of_their_own_that_serve_many_jobs(workers):
    outcomes = {outcome.job: outcome for outcome in execute(where, range(12), workers=workers)}
    assert sorted(outcomes) == list(range(12))
    for job, outcome in outcomes.items():
        assert outcome.value[0] == job
        assert outcome.value[2] == 1
        assert (outcome.error, outcome.attempts) == (None, 1)
    processes = {outcome.value[1] for outcome in outcomes.values()}
    assert os.getpid() not in processes
    assert len(processes) <= workers


def test_outcomes_come_in_the_order_in_which_jobs_end(tmp_path):
    first, *others = (tmp_path / name for name in "abc")
    for path in others:
        path.touch()
    with closing(execute(wait_until_there, [first, *others], workers=2)) as outcomes:
        ended = [next(outcomes), next(outcomes)]
        first.touch()
        ended += outcomes
    assert [outcome.job for outcome in ended] == [*others, first]


@HERE_AND_THERE
def test_no_jobs(workers):
    assert list(execute(where, [], workers=workers)) == []


def test_no_more_workers_are_started_than_there_are_jobs():
    with closing(execute(sleep, [0.0, 3600.0], workers=50)) as outcomes:
        next(outcomes)
        assert len(active_children()) == 2


def test_nothing_starts_before_it_is_asked_for():
    with closing(execute(where, [1], workers=1)):
        assert active_children() == []


def test_a_slow_consumer_keeps_no_worker_waiting_and_misses_nothing(tmp_path):
    jobs = [tmp_path / str(number) for number in range(3)]
    with closing(execute(Path.touch, jobs, workers=1)) as outcomes:
        ended = [next(outcomes)]
        while not jobs[1].exists():  # while nobody asks for it
            time.sleep(0.01)
        ended += outcomes
    assert [outcome.job for outcome in ended] == jobs


def test_what_jobs_print_is_not_mixed_with_results(capfd):
    assert [outcome.error for outcome in execute(print, ["a line"], workers=1)] == [None]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "a line\n")


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_a_worker_compiles_on_one_core_unless_told_otherwise(monkeypatch, given, used):
    """Each would start a process for every core."""
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", given)
    [outcome] = execute(compile_threads, [1], workers=1)
    assert outcome.value == used


def test_a_job_leaves_the_next_one_the_memory_of_the_gpu():
    assert [outcome.value for outcome in execute(pretend_to_use_cuda, [1, 2], workers=1)] == [[], [1]]


# Jobs that fail


@HERE_AND_THERE
def test_a_job_that_raises_is_reported_and_the_others_go_on(workers):
    outcomes = {outcome.job: outcome for outcome in execute(act, [1, "raise", 2], workers=workers)}
    failed = outcomes.pop("raise")
    assert (failed.value, failed.error, failed.attempts) == (None, "RuntimeError: no luck", 1)
    assert "in act" in failed.traceback
    assert {job: outcome.value for job, outcome in outcomes.items()} == {1: 1, 2: 2}


def test_what_cannot_be_sent_is_an_error_and_the_worker_goes_on():
    jobs = [
        "raise unspeakable",
        "sys.exit",
        "return a function of its own",
        "return what cannot be read",
        "return megabytes",
    ]
    outcomes = list(execute(act, jobs, workers=1))
    assert [outcome.job for outcome in outcomes] == jobs
    unspeakable, left, local, unreadable, large = outcomes
    assert "Unspeakable" in unspeakable.error
    assert left.error == "SystemExit: enough"
    assert "local object" in local.error
    assert unreadable.error == "ValueError: cannot be read here"
    assert "in _unreadable" in unreadable.traceback
    assert (len(large.value), large.error) == (5_000_000, None)
    assert {outcome.attempts for outcome in outcomes} == {1}


def test_a_function_that_the_worker_cannot_find_is_an_error(monkeypatch):
    def elsewhere(job):
        return job

    elsewhere.__module__, elsewhere.__qualname__ = __name__, "nowhere"
    monkeypatch.setattr(sys.modules[__name__], "nowhere", elsewhere, raising=False)
    [outcome] = execute(elsewhere, [1], workers=1)
    assert "nowhere" in outcome.error


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        ("os._exit", "ended with exit status 3"),
        ("segfault", "killed by SIGSEGV"),
        ("a signal without a name", "killed by signal 40"),
    ],
)
def test_a_job_whose_process_dies_every_time_is_reported_and_the_others_go_on(job, cause):
    outcomes = {outcome.job: outcome for outcome in execute(act, [job, *range(4)], workers=2, retries=1)}
    failed = outcomes.pop(job)
    assert f"{cause}; attempts: 2." in failed.error
    assert (failed.value, failed.attempts) == (None, 2)
    assert {job: outcome.value for job, outcome in outcomes.items()} == {number: number for number in range(4)}


def test_without_retries_a_job_is_started_once():
    [outcome] = execute(act, ["os._exit"], workers=1, retries=0)
    assert outcome.attempts == 1
    assert "exit status 3" in outcome.error


def test_a_killed_worker_is_replaced_and_its_job_done_by_another(tmp_path):
    jobs = [tmp_path / name for name in ("a", "b", "c")]
    outcomes = list(execute(die_at_first, jobs, workers=2))
    assert sorted(outcome.job for outcome in outcomes) == jobs
    for outcome in outcomes:
        assert (outcome.error, outcome.attempts) == (None, 2)
        first, second = map(int, outcome.job.read_text().split())
        assert outcome.value == second != first


def test_what_is_tried_again_comes_behind_the_others(tmp_path):
    """In want of memory, later is better."""
    first, *others = jobs = [tmp_path / name for name in ("a", "b", "c")]
    for job in others:
        job.write_text("not the first attempt\n")
    assert [outcome.job for outcome in execute(die_at_first, jobs, workers=1)] == [*others, first]


def test_ctrl_c_is_not_a_job_that_fails():
    with pytest.raises(KeyboardInterrupt):
        list(execute(interrupt, [1, 2], workers=0))


def test_a_worker_killed_from_outside(tmp_path):
    job = tmp_path / "job"
    with closing(execute(announce_and_sleep, [job], workers=1, retries=0)) as outcomes:
        killer = f"import os, time, pathlib; p = pathlib.Path({str(job)!r})\n"
        killer += "while not (p.exists() and p.read_text()): time.sleep(0.05)\nos.kill(int(p.read_text()), 9)"
        with subprocess.Popen([sys.executable, "-c", killer]):
            [outcome] = outcomes
    assert "killed by SIGKILL (out of memory?)" in outcome.error


def test_a_death_is_noticed_although_a_child_holds_the_pipe_open(tmp_path):
    job = tmp_path / "child"
    try:
        [outcome] = execute(die_and_leave_a_child, [job], workers=1, retries=0)
        assert "exit status 3" in outcome.error
    finally:
        os.kill(int(job.read_text()), signal.SIGKILL)


def test_after_a_failure_on_a_gpu_the_next_job_gets_a_fresh_process():
    errors = [outcome.error for outcome in execute(use_cuda_and_fail, [1, 2], workers=1)]
    assert len(set(errors)) == 2


# The end


def test_closing_early_stops_the_workers():
    # Waiting for the long ones would take an hour.
    with closing(execute(sleep, [0.0, 3600.0, 3601.0], workers=2)) as outcomes:
        assert next(outcomes).value == 0.0
    assert active_children() == []


def test_an_exception_in_the_consumer_stops_the_workers():
    def consume():
        with closing(execute(sleep, [0.0, 3600.0], workers=2)) as outcomes:
            for outcome in outcomes:
                raise KeyError(outcome.job)

    with pytest.raises(KeyError):
        consume()
    assert active_children() == []


def test_idle_workers_end_by_themselves_and_leave_nothing_to_complain_about():
    """Whoever is killed leaves its semaphores, of which multiprocessing warns at the end."""
    script = """
from tests.grid.test_executors import hold_a_semaphore
from tnlpad.grid.executors import execute
print(sorted(each.value for each in execute(hold_a_semaphore, [1, 2, 3, 4], workers=2)))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[1, 2, 3, 4]\n", "")


def test_a_driver_that_ends_without_a_word_waits_for_no_job():
    script = """
from tests.grid.test_executors import sleep
from tnlpad.grid.executors import execute
if __name__ == "__main__":
    outcomes = execute(sleep, [0.0, 3600.0], workers=2)
    next(outcomes)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, timeout=100).returncode == 0


DRIVER = """
import signal
import sys
from pathlib import Path
from tests.grid import test_executors
from tnlpad.grid.executors import execute

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in a shell's background
    function, *names = sys.argv[1:]
    for outcome in execute(getattr(test_executors, function), list(map(Path, names)), workers=2):
        raise SystemExit(f"ended: {outcome}")
"""


def driver(tmp_path, function, jobs):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, script, function, *jobs]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(paths):
    while not all(path.exists() and path.read_text() for path in paths):
        time.sleep(0.05)


def test_when_the_driver_is_killed_no_worker_goes_on(tmp_path):
    jobs = [tmp_path / "a", tmp_path / "b"]
    with driver(tmp_path, "announce_and_sleep", jobs) as process:
        wait_for(jobs)
        process.kill()
    for job in jobs:
        with FileLock(job.with_suffix(".lock"), timeout=30):  # held for an hour by whoever goes on
            pass


def test_ctrl_c_is_for_the_driver_alone_and_stops_everything(tmp_path):
    job = tmp_path / "a"
    with driver(tmp_path, "press_ctrl_c", [job]) as process:
        _, errors = process.communicate()
    assert job.read_text() == "still here"
    assert errors.count("Traceback") == 1
    assert errors.endswith("KeyboardInterrupt\n")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("name", "options"), [("workers", {"workers": -1}), ("retries", {"workers": 1, "retries": -1})]
)
def test_numbers_below_zero_are_refused(name, options):
    with pytest.raises(ValueError, match=f"{name}=-1: must be at least 0"):
        execute(where, [1], **options)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # as on a Mac
    assert available_cores() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
