"""How many runs share a GPU: simulated speeds, and the executor that follows."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tnlpad.grid.executors import execute
from tnlpad.grid.filling import Filling, Progress
from tnlpad.grid.grid import Job, progress_of
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure


class Gpu:
    """Runs whose epochs all end at the same time; `speeds` says how fast so many are together."""

    def __init__(self, speeds, *, start, most):
        self.speeds, self.epochs, self.said = speeds, {}, []
        self.filling = Filling(start=start, most=most, progress=self.progress, say=self.said.append)
        self.running = []

    def progress(self, job):
        epochs = self.epochs[job]
        return Progress(epochs=epochs, speed=self.speeds(len(self.running)) / len(self.running)) if epochs else None

    def run(self, epochs):
        """Train for some epochs, with as many runs as are allowed after each."""
        for _ in range(epochs):
            allowed = self.filling(self.running)
            while len(self.running) < allowed:
                job = f"run {len(self.epochs)}"
                self.epochs[job] = 0
                self.running.append(job)
            for job in self.running:
                self.epochs[job] += 1
        return self.filling.allowed


@pytest.mark.parametrize(
    ("speeds", "start", "most", "expected"),
    [
        (lambda runs: min(runs, 12), 9, 20, 12),  # 12 are faster than 9, and 16 as fast as 12
        (lambda runs: min(runs, 9), 9, 20, 9),
        (lambda runs: runs, 9, 20, 20),
        (lambda runs: runs**0.05, 9, 20, 9),  # faster, but hardly
        (lambda runs: runs, 1, 3, 3),
        (lambda runs: runs, 4, 4, 4),
    ],
)
def test_more_runs_are_kept_where_they_are_faster_together(speeds, start, most, expected):
    gpu = Gpu(speeds, start=start, most=most)
    gpu.run(40)
    assert (gpu.filling.settled, gpu.filling.allowed) == (True, expected)


def test_nothing_is_decided_before_all_have_trained_together_for_two_epochs():
    gpu = Gpu(lambda runs: runs, start=3, most=6)
    assert gpu.run(2) == 3
    gpu.running.remove("run 0")  # it ends, and another follows
    assert gpu.run(2) == 3
    assert gpu.run(2) == 4


def test_runs_in_excess_are_not_followed_by_others_and_what_was_found_is_said():
    gpu = Gpu(lambda runs: min(runs, 3), start=3, most=9)
    assert gpu.run(8) == 3
    assert len(gpu.running) == 4  # no run is stopped
    assert gpu.said == ["4 runs at once train 1.00 times as fast as 3: back to these."]


def test_a_larger_number_is_said():
    gpu = Gpu(lambda runs: runs, start=3, most=4)
    assert gpu.run(8) == 4
    assert gpu.said == ["4 runs at once train 1.33 times as fast as 3."]


def wait_until_three(job):
    folder, name = job
    Path(folder, name).touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(list(Path(folder).iterdir()))


def test_the_executor_starts_what_is_allowed_while_others_run(tmp_path):
    jobs = [(str(tmp_path), f"job {number}") for number in range(3)]
    allowed = iter([1, 2])  # later 3: the first two wait for the third
    seen = []

    def grows(running):
        seen.append(len(running))
        return next(allowed, 3)

    with closing(execute(wait_until_three, jobs, workers=1, allowed=grows)) as outcomes:
        assert [outcome.value for outcome in outcomes] == [3, 3, 3]
    assert seen[:3] == [0, 1, 2]


def test_the_progress_of_a_run_is_that_of_its_last_epoch_relative_to_training_alone(tmp_path):
    config = configure("cifar10", noise="symmetric:0.4", device="cuda")
    job = Job("a", config.to_json(), str(tmp_path), None, "cuda")
    assert progress_of(job) is None
    folder = RunFolder(tmp_path / "a")
    folder.path.mkdir()

    def append(epoch, training):
        seconds = {"training": training, "measuring": 1.0}
        folder.append_epoch({"epoch": epoch, "validation_accuracy": 0.5, "test_accuracy": 0.5, "seconds": seconds})

    append(1, 60.0)
    append(2, 4.0)
    found = progress_of(job)
    assert found.epochs == 2
    append(3, 8.0)
    assert progress_of(job).speed == pytest.approx(found.speed / 2)


def test_user_data_have_no_recorded_speed_and_count_alike(tmp_path):
    config = replace(configure("digits", noise="symmetric:0.4", device="cuda"), dataset="own")
    job = Job("a", config.to_json(), str(tmp_path), None, "cuda", own=object())
    (tmp_path / "a").mkdir()
    record = {"epoch": 1, "validation_accuracy": 0.5, "test_accuracy": None, "seconds": {"training": 4.0}}
    RunFolder(tmp_path / "a").append_epoch(record)
    assert progress_of(job) == Progress(epochs=1, speed=0.25)
