import errno
import json
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import tnlpad.grid.grid as grid
from tnlpad.errors import DataError, NoiseDataError
from tnlpad.grid.executors import Outcome, execute
from tnlpad.grid.grid import (
    DiskFull,
    Failure,
    Job,
    Result,
    failed,
    failure_of,
    job_folder,
    moved,
    result_of,
    run_grid,
    run_job,
    run_status,
)
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.run import run
from tnlpad.training.loop import Diverged


def answered(error, **options):
    try:
        raise error
    except Exception as raised:
        return failed(raised, **options)


@pytest.mark.parametrize("kind", [DataError, NoiseDataError, RecordError, Diverged, ValueError, PermissionError])
def test_what_a_person_can_mend_is_told_in_words(kind):
    bad_data = kind in (DataError, RecordError)
    assert answered(kind("no luck")) == Result("failed", error="no luck", bad_data=bad_data)
    assert answered(kind()) == Result("failed", error=kind.__name__, bad_data=bad_data)


def test_where_it_came_from_is_said_if_asked():
    assert "in answered" in answered(ValueError("no luck"), expected=False).traceback


def test_a_bug_is_raised_again():
    with pytest.raises(ZeroDivisionError, match="a bug"):
        answered(ZeroDivisionError("a bug"))


def test_a_full_disk_is_the_end():
    result = answered(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskFull, match=r"No space left.*free some space"):
        result_of(Outcome(job=1, value=result, error=None, attempts=1))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_the_end_whatever_was_made_of_it(code):
    error = RecordError("cannot be written")
    error.__cause__ = OSError(code, "no space")
    assert answered(error) == Result("disk full", error="cannot be written")


def test_a_worker_without_an_answer_has_failed():
    outcome = Outcome(job=1, value=None, error="killed", attempts=3, traceback="where")
    assert result_of(outcome) == Result("failed", error="killed", traceback="where")


def test_a_failure_in_a_line():
    assert str(Failure(error="no luck")) == "no luck"
    assert str(Failure(error="no luck", traceback=Path("runs/a/error.txt"))) == "no luck (traceback: runs/a/error.txt)"


def test_a_traceback_is_kept_where_there_is_one_and_it_can_be_written():
    def full(text):
        raise OSError(errno.ENOSPC, "No space left on device")

    def in_the_way(text):
        raise RecordError("a file is in the way")

    bug = Result("failed", error="no luck", traceback="where")
    assert failure_of(Result("done"), full) is None
    assert failure_of(Result("failed", error="no luck"), full) == Failure(error="no luck")
    assert failure_of(bug, full) == failure_of(bug, in_the_way) == Failure(error="no luck")
    assert failure_of(bug, Path) == Failure(error="no luck", traceback=Path("where"))


HERE = partial(execute, workers=0)


def small(seed=1, **settings):
    """Digits for two epochs: a tenth of a second."""
    given = {"epochs": 2, "batch_size": 256, **settings}
    return configure("digits", noise="symmetric:0.4", seed=seed, settings=given)


def job(config, out):
    return Job(config.run_id, config.to_json(), str(out), None, "cpu")


def state(config, out):
    return run_status(config.run_id, out).state


class Stop(Exception):
    pass


def begun(config, out):
    """A run that was killed after its first epoch."""

    def on_epoch(record):
        raise Stop

    with pytest.raises(Stop):
        run(config, out, on_epoch=on_epoch)
    return RunFolder(out / config.run_id)


# How a run stands


def test_states_of_a_run_on_its_way(tmp_path):
    config = small()
    assert state(config, tmp_path / "nowhere") == "missing"
    (tmp_path / config.run_id).mkdir()
    assert state(config, tmp_path) == "missing"
    folder = begun(config, tmp_path)
    assert run_status(config.run_id, tmp_path) == grid.RunStatus(state="begun", epochs=1)
    with folder.lock():
        assert run_status(config.run_id, tmp_path) == grid.RunStatus(state="running", epochs=1)
    run(config, tmp_path)
    now = run_status(config.run_id, tmp_path)
    assert now.state == "done"
    assert now.seconds_per_epoch == pytest.approx(folder.summary()["seconds"]["epochs"] / 2)
    with folder.lock():  # whoever holds it now, finished is finished
        assert state(config, tmp_path) == "done"


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("summary.json", "{", "is damaged"),
        ("summary.json", json.dumps({"run_id": "another"}), "is missing"),
        ("config.json", "{", "is damaged"),
        ("epochs.jsonl", '{"epoch": 7}\n', "is not the record of epoch 1"),
    ],
)
def test_damaged_runs_say_what_is_wrong(tmp_path, file, content, problem):
    config = small()
    folder = begun(config, tmp_path)
    (folder.path / file).write_text(content)
    now = run_status(config.run_id, tmp_path)
    assert now.state == "damaged"
    assert problem in now.problem
    assert str(folder.path / file) in now.problem


def test_a_folder_that_cannot_be_looked_into_is_damaged_too(tmp_path, monkeypatch):
    def denied(folder):
        raise PermissionError(f"{folder.lock_file}: denied")

    monkeypatch.setattr(RunFolder, "in_use", property(denied))
    problem = f"{tmp_path / 'a' / 'lock'}: denied"
    assert run_status("a", tmp_path) == grid.RunStatus(state="damaged", problem=problem)


# One job


def test_a_job_is_carried_out_and_leaves_no_checkpoint(tmp_path):
    config = small()
    result = run_job(job(config, tmp_path))
    folder = RunFolder(tmp_path / config.run_id)
    assert result.state == "done"
    assert result.test_accuracy == folder.summary()["chosen"]["test_accuracy"]
    assert not folder.checkpoint_file.exists()
    assert folder.model_file.exists()


def test_what_a_worker_passes_on(tmp_path, monkeypatch):
    """Where to run and how often to save; its answer is the accuracy of the chosen epoch, and how long it took."""
    told, clock = [], iter([10.0, 13.0, 20.0, 21.0])

    def run(config, out, **options):
        told.append((config, out, options))
        ends = {"chosen": {"test_accuracy": 0.75}, "last": {"test_accuracy": 0.5}}
        return SimpleNamespace(summary=lambda: ends)

    monkeypatch.setattr("tnlpad.runs.run.run", run)
    monkeypatch.setattr(grid, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    given = Job(small().run_id, small().to_json(), str(tmp_path / "runs"), str(tmp_path / "data"), "cuda:1")
    assert run_job(given) == Result("done", test_accuracy=0.75, seconds=3.0)
    assert run_job(given._replace(root=None)) == Result("done", test_accuracy=0.75, seconds=1.0)
    options = {"root": tmp_path / "data", "device": "cuda:1", "checkpoint_every_seconds": 60.0}
    options |= dict.fromkeys(("own", "weights", "backbone", "cache", "scoring_interval"))
    runs = small(), tmp_path / "runs"
    assert told == [(*runs, options), (*runs, {**options, "root": None})]


def test_jobs_mean_the_same_place_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs = []

    def note(function, given):
        for each in given:
            jobs.append(each)
            yield Outcome(job=each, value=Result("done", test_accuracy=0.5, seconds=1.0), error=None, attempts=1)

    (ended,) = run_grid([small()], Path("runs"), execute=note, root=Path("data"), device="cuda:1")
    assert (ended.test_accuracy, ended.seconds) == (0.5, 1.0)
    config = small()
    assert jobs == [Job(config.run_id, config.to_json(), str(tmp_path / "runs"), str(tmp_path / "data"), "cuda:1")]


def test_a_run_of_another_process_is_left_to_it(tmp_path, monkeypatch):
    config = small()
    monkeypatch.setattr("tnlpad.runs.run.prepare_data", lambda *_: pytest.fail("read data for nothing"))
    with RunFolder(tmp_path / config.run_id).lock():
        assert run_job(job(config, tmp_path)) == Result("busy")


def test_a_run_that_another_process_takes_at_the_last_moment(tmp_path, monkeypatch):
    config = small()
    monkeypatch.setattr(RunFolder, "in_use", False)
    monkeypatch.setattr("tnlpad.records.store.LOCK_TIMEOUT_SECONDS", 0)
    with RunFolder(tmp_path / config.run_id).lock():
        assert run_job(job(config, tmp_path)) == Result("busy")


def test_what_a_person_can_mend_is_an_answer_and_a_bug_is_not(tmp_path, monkeypatch):
    diverging = run_job(job(small(learning_rate=1e6), tmp_path))
    assert diverging.state == "failed"
    assert "learning rate" in diverging.error

    def bug(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("tnlpad.runs.run.run", bug)
    with pytest.raises(ZeroDivisionError):
        run_job(job(small(), tmp_path))


def test_a_wrong_value_after_the_beginning_is_a_bug(tmp_path, monkeypatch):
    """Before it, it is a setting that is refused; and a file of noise that has changed is no bug at any time."""

    def wrong(*_, **__):
        raise ValueError("not what it should be")

    def other_file(*_, **__):
        raise NoiseDataError("another file")

    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.runs.run.prepare_method", wrong)
        assert run_job(job(small(), tmp_path)) == Result("failed", error="not what it should be")
    monkeypatch.setattr("tnlpad.runs.run.train", wrong)
    result = run_job(job(small(), tmp_path))
    assert (result.state, result.error) == ("failed", "not what it should be")
    assert "in wrong" in result.traceback
    monkeypatch.setattr("tnlpad.runs.run.train", other_file)
    assert run_job(job(small(), tmp_path)) == Result("failed", error="another file")


def test_a_job_can_be_moved(tmp_path):
    there = moved(job(small(), tmp_path), tmp_path / "there")
    assert job_folder(there) == tmp_path / "there" / small().run_id


# The grid


def test_every_run_ends_once_and_failures_do_not_stop_the_others(tmp_path):
    configs = [small(1), small(2, learning_rate=1e6), small(3)]
    ended = list(run_grid(configs, tmp_path, execute=HERE))
    assert [each.run_id for each in ended] == [config.run_id for config in configs]
    assert [each.failure is None for each in ended] == [True, False, True]
    assert [state(config, tmp_path) for config in configs] == ["done", "begun", "done"]


def test_a_second_time_nothing_is_run_again(tmp_path):
    configs = [small(1), small(2)]
    list(run_grid(configs, tmp_path, execute=HERE))

    def nothing(function, jobs):
        pytest.fail("ran again")

    ended = list(run_grid(configs, tmp_path, execute=nothing))
    assert [(each.failure, each.attempts) for each in ended] == [(None, 0)] * 2


def test_what_was_begun_is_continued(tmp_path):
    alone = run(small(), tmp_path / "alone").summary()
    begun(small(), tmp_path / "resumed")
    (ended,) = run_grid([small()], tmp_path / "resumed", execute=HERE)
    assert ended.test_accuracy == alone["chosen"]["test_accuracy"]


def test_damaged_runs_are_reported_and_left_as_they_are(tmp_path):
    folder = begun(small(), tmp_path)
    folder.summary_file.write_text("{")
    (ended,) = run_grid([small()], tmp_path, execute=HERE)
    assert "is damaged" in ended.failure.error
    assert folder.summary_file.read_text() == "{"


def test_a_worker_that_is_lost_is_a_failure_of_its_run_alone(tmp_path):
    configs = [small(1), small(2)]

    def loses_the_first(function, jobs):
        yield Outcome(job=jobs[0], value=None, error="killed", attempts=3)
        yield from execute(function, jobs[1:], workers=0)

    ended = list(run_grid(configs, tmp_path, execute=loses_the_first))
    assert [(each.failure, each.attempts) for each in ended] == [(Failure(error="killed"), 3), (None, 1)]


@pytest.mark.parametrize("end", ["finished", "given up"])
def test_runs_of_another_driver_are_waited_for(tmp_path, monkeypatch, end):
    monkeypatch.setattr(grid, "POLL_SECONDS", 0)
    mine, theirs = small(1), small(2)
    lock = RunFolder(tmp_path / theirs.run_id).lock()
    lock.__enter__()
    waited, asked = [], []

    def watched(function, jobs):
        asked.append([each.run_id for each in jobs])
        return execute(function, jobs, workers=0)

    def on_wait(count):
        waited.append(count)
        assert asked == [[mine.run_id]]
        lock.__exit__(None, None, None)
        if end == "finished":
            run(theirs, tmp_path)

    ended = list(run_grid([theirs, mine], tmp_path, execute=watched, on_wait=on_wait))
    assert waited == [1]
    assert [each.run_id for each in ended] == [mine.run_id, theirs.run_id]
    assert [each.failure for each in ended] == [None, None]
    assert ended[1].attempts == (0 if end == "finished" else 1)


def test_what_another_driver_finishes_meanwhile_is_not_waited_for(tmp_path):
    mine, theirs = small(1), small(2)
    lock = RunFolder(tmp_path / theirs.run_id).lock()
    lock.__enter__()

    def both(function, jobs):
        lock.__exit__(None, None, None)
        run(theirs, tmp_path)
        yield from execute(function, jobs, workers=0)

    ended = run_grid([theirs, mine], tmp_path, execute=both, on_wait=lambda count: pytest.fail(f"waits for {count}"))
    assert [each.run_id for each in ended] == [mine.run_id, theirs.run_id]


def test_the_executor_is_closed_when_the_consumer_stops(tmp_path):
    """Even if it is held by someone else, such as the traceback of an error."""
    closed, held = [], []

    def watched(function, jobs):
        try:
            yield from execute(function, jobs, workers=0)
        finally:
            closed.append(True)

    def executor(function, jobs):
        held.append(watched(function, jobs))
        return held[0]

    ends = run_grid([small(1), small(2)], tmp_path, execute=executor)
    next(ends)
    ends.close()
    assert closed == [True]


def test_a_run_that_is_busy_elsewhere_is_not_asked_for_without_a_pause(tmp_path, monkeypatch):
    """On a machine with a folder of its own another process may be at it, of which nothing is seen here."""
    rounds, waited, slept = [], [], []
    monkeypatch.setattr(grid, "time", SimpleNamespace(sleep=slept.append))

    def busy_twice(function, jobs):
        rounds.append(len(jobs))
        yield Outcome(job=jobs[0], value=Result("busy" if len(rounds) < 3 else "done"), error=None, attempts=1)

    list(run_grid([small()], tmp_path, execute=busy_twice, on_wait=waited.append))
    assert (rounds, waited, slept) == ([1, 1, 1], [1, 1], [grid.POLL_SECONDS] * 2)


# Bugs and full disks


def test_a_bug_leaves_its_traceback_until_the_run_is_finished(tmp_path, monkeypatch):
    config, folder = small(), RunFolder(tmp_path / small().run_id)

    def bug(*_, **__):
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.runs.run.train", bug)
        (ended,) = run_grid([config], tmp_path, execute=HERE)
    assert ended.failure == Failure(error="ZeroDivisionError: a bug", traceback=folder.error_file)
    assert str(ended.failure) == f"ZeroDivisionError: a bug (traceback: {folder.error_file})"
    assert "in bug" in folder.error_file.read_text()
    assert state(config, tmp_path) == "begun"
    (ended,) = run_grid([config], tmp_path, execute=HERE)
    assert ended.failure is None
    assert not folder.error_file.exists()


def test_a_traceback_that_cannot_be_written_is_no_second_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.run.train", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(RunFolder, "keep_error", lambda *_: (_ for _ in ()).throw(PermissionError))
    (ended,) = run_grid([small()], tmp_path, execute=HERE)
    assert ended.failure == Failure(error="ZeroDivisionError: division by zero")


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_full_disk_stops_the_grid_and_finished_runs_are_kept(tmp_path, monkeypatch, moment):
    """At whatever file it is full: the configuration, an epoch or a checkpoint of the second run."""
    configs, sync, written = [small(seed) for seed in (1, 2, 3)], os.fsync, []

    def full(file):
        written.append(file)
        if state(configs[0], tmp_path) == "done" and len(written) >= moment + before[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    before = [10**9]
    monkeypatch.setattr(os, "fsync", full)
    ends = run_grid(configs, tmp_path, execute=HERE)
    assert next(ends).failure is None
    before[0] = len(written)
    with pytest.raises(DiskFull, match=r"No space left.*Finished runs are kept"):
        next(ends)
    monkeypatch.undo()
    assert [state(config, tmp_path) for config in configs][::2] == ["done", "missing"]
    assert [each.failure for each in run_grid(configs, tmp_path, execute=HERE)] == [None] * 3
