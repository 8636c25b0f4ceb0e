"""How many runs share a GPU: a simulated GPU, and the executor that follows."""

import json
import os
import random
import time
from contextlib import closing, nullcontext
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

from tnlpad.cli.grid_runs import _executor
from tnlpad.grid.estimate import fastest_at_once
from tnlpad.grid.executors import execute
from tnlpad.grid.filling import EPOCHS, GAIN, Filling, Search, epoch_seconds
from tnlpad.grid.grid import Job
from tnlpad.grid.mps import (
    PROCESSORS_SHARE,
    RUNS_PER_GPU,
    SMALL_RUNS_PER_GPU,
    AtOnce,
    kind_of,
    runs_at_once,
    share_of,
)
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure

COMPILING_SECONDS = 40.0  # before the first epoch of a run, while the other runs have the GPU for themselves
TICK = 1.0


def job_of(number, dataset="cifar10", out="", method="tnlpad"):
    config = configure(dataset, noise="symmetric:0.4", method=method, seed=number + 1, device="cuda")
    return Job(f"{dataset} {number}", config.to_json(), out, None, "cuda")


def saturating(best):
    """Fast growth up to `best` runs at once, then a slow decline, as measured on an H200."""
    return lambda runs: min(runs, best) ** 0.8 * (1 - 0.01 * max(0, runs - best))


class Gpu:
    """A GPU that trains runs as fast as `together` says for their number, with noise in every epoch.

    Runs of methods have epochs of other lengths. A run with a larger share of the processors gets more of the GPU.
    """

    def __init__(self, jobs, together, numbers, *, seed=0, noise=0.02, epochs=(50, 90)):
        self.random, self.together, self.noise = random.Random(seed), together, noise
        self.waiting, self.running, self.finished, self.said, self.started = list(jobs), [], [], [], []
        self.ended, self.shares, self.done, self.begun, self.seconds = {}, {}, {}, {}, {}
        self.work = {job.run_id: self.random.choice([2.0, 4.0, 8.0]) for job in jobs}  # of an epoch
        self.epochs = {job.run_id: self.random.randint(*epochs) for job in jobs}
        self.filling = Filling(numbers, shares=True, say=self.said.append, seconds=lambda job: self.seconds[job.run_id])
        self.now = 0.0

    def start(self):
        while self.waiting and (variables := self.filling(self.waiting[0], self.running)) is not None:
            job = self.waiting.pop(0)
            self.running.append(job)
            self.shares[job.run_id] = int(variables[PROCESSORS_SHARE])
            self.started.append((job, self.filling.searches[kind_of(job.config)].number))
            self.begun[job.run_id], self.seconds[job.run_id], self.done[job.run_id] = self.now, [], 0.0

    def tick(self):
        self.now += TICK
        training = [job for job in self.running if self.now > self.begun[job.run_id] + COMPILING_SECONDS]
        weights = {job.run_id: self.shares[job.run_id] ** 0.1 for job in training}
        for job in training:
            run = job.run_id
            speed = self.together(len(training)) * weights[run] / sum(weights.values())
            self.done[run] += TICK * speed / self.work[run]
            if self.done[run] >= 1:
                ended = self.now - (self.done[run] - 1) * self.work[run] / speed
                took = ended - self.ended.get(run, self.begun[run] + COMPILING_SECONDS)
                self.seconds[run].append(took * self.random.gauss(1, self.noise))
                self.done[run], self.ended[run] = self.done[run] - 1, ended
        for job in list(self.running):
            if len(self.seconds[job.run_id]) >= self.epochs[job.run_id]:
                self.running.remove(job)
                self.finished.append(job)

    def train(self):
        while self.waiting or self.running:
            self.start()
            assert self.running
            self.tick()
        return self


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("start", [1, 6, 20])
@pytest.mark.parametrize("best", [3, 6, 12])
def test_it_settles_near_the_best_number_from_starts_too_low_and_too_high(best, start, seed):
    jobs, together = [job_of(number) for number in range(100)], saturating(best)
    gpu = Gpu(jobs, together, {kind_of(jobs[0].config): AtOnce(start=start, most=20)}, seed=seed).train()
    (search,) = gpu.filling.searches.values()
    assert search.settled
    assert best / 1.5 <= search.number <= 1.5 * best
    assert together(search.number) >= 0.95 * together(best)
    assert gpu.said[-1].endswith(f"and {search.number} are kept.")
    assert len(gpu.finished) == len(jobs)  # none was stopped
    assert all(share_of(number) == gpu.shares[job.run_id] for job, number in gpu.started)
    assert len({number for _, number in gpu.started}) > 1


def test_without_noise_the_number_is_the_best_of_those_tried():
    jobs = [job_of(number) for number in range(120)]
    gpu = Gpu(jobs, saturating(9), {kind_of(jobs[0].config): AtOnce(start=6, most=20)}, noise=0).train()
    gains = [line.split()[6] for line in gpu.said]
    assert [line.split(" at once")[0] for line in gpu.said] == ["resnet18: 9 runs", "resnet18: 13 runs"]
    assert float(gains[0]) == pytest.approx((9 / 6) ** 0.8, rel=0.05)
    assert float(gains[1]) < GAIN
    assert gpu.said[-1].endswith("and 9 are kept.")


def test_neighbours_are_compared_until_one_number_is_left():
    search = Search(start=9, most=20)
    search.take(dict.fromkeys(range(9), 1.0))
    assert search.number == 13
    found = search.take(dict.fromkeys(range(9), 1.4) | {"new": 7.0})
    assert found == "13 runs at once train 1.03 times as fast as 9."  # 13 / 9 / 1.4
    assert search.number == 19
    assert (
        search.take(dict.fromkeys(range(13), 2.0)) == "19 runs at once train 1.02 times as fast as 13, and 13 are kept."
    )
    assert (search.settled, search.number) == (True, 13)


def test_a_smaller_number_is_kept_if_it_is_as_fast():
    search = Search(start=6, most=6)
    search.take({"a": 6.0, "b": 12.0, "c": 3.0})
    assert search.number == 4
    assert search.take({"a": 4.0, "b": 8.0, "c": 2.0}) == "6 runs at once train 1.00 times as fast as 4."
    assert search.number == 2
    assert search.take({"a": 3.9, "b": 7.8}) == "4 runs at once train 1.95 times as fast as 2, and 4 are kept."


def test_numbers_with_few_runs_in_common_are_not_compared():
    search = Search(start=6, most=6)
    search.take(dict.fromkeys("abcdef", 1.0))
    assert search.number == 4
    assert search.take(dict.fromkeys("aghi", 0.001)) is None
    assert search.number == 6  # again, now with these
    assert "1.50 times as fast as 4" in search.take(dict.fromkeys("aghijk", 0.001))


@pytest.mark.parametrize("bounds", [{"start": 1, "most": 1}, {"start": 7, "most": 7, "least": 7}])
def test_a_search_of_one_number_is_settled(bounds):
    assert (Search(**bounds).settled, Search(**bounds).number) == (True, bounds["start"])


def test_nothing_is_compared_while_some_runs_compile():
    jobs = [job_of(number) for number in range(3)]
    seconds = {job.run_id: [1.0] for job in jobs}
    filling = Filling(
        {kind_of(jobs[0].config): AtOnce(start=2, most=3)},
        shares=False,
        say=print,
        seconds=lambda job: seconds[job.run_id],
    )
    assert filling(jobs[2], jobs[:2]) is None
    seconds[jobs[0].run_id] = [1.0] * 50
    assert filling(jobs[2], jobs[:2]) is None
    seconds[jobs[1].run_id] = [1.0] * 2
    for _ in range(EPOCHS):
        assert filling(jobs[2], jobs[:2]) is None
        for its in seconds.values():
            its.append(1.0)
    assert filling(jobs[2], jobs[:2]) == {}


def test_kinds_mix_as_far_as_there_is_room_and_speeds_are_not_compared():
    small, large = [job_of(number, "mnist") for number in range(8)], [job_of(number) for number in range(4)]
    numbers = {kind_of(small[0].config): AtOnce(start=8, most=9), kind_of(large[0].config): AtOnce(start=2, most=9)}
    filling = Filling(numbers, shares=True, say=print, seconds=lambda job: [1.0] * int(time.monotonic() * 1e6))
    assert filling(small[4], [large[0], *small[:3]])  # 1/2 + 3/8 + 1/8
    assert filling(small[4], [large[0], *small[:4]]) is None
    assert filling(large[1], [*small[:5]]) is None
    assert filling(large[1], [*small[:4]]) == {PROCESSORS_SHARE: "100"}
    assert not any(search._seconds for search in filling.searches.values())


def test_the_share_that_the_user_set_is_kept(monkeypatch):
    monkeypatch.setenv(PROCESSORS_SHARE, "50")
    filling = Filling({kind_of(job_of(1).config): AtOnce(start=9, most=9)}, shares=True, say=print)
    assert filling(job_of(1), []) == {}


def test_runs_begin_with_the_number_that_was_fastest_for_their_network(monkeypatch):
    monkeypatch.setattr("tnlpad.grid.mps.shutil.which", str)
    monkeypatch.setattr("tnlpad.grid.mps._free_gigabytes", lambda device: 1000.0)
    monkeypatch.setattr("tnlpad.grid.mps.available_cores", lambda: 64)
    record = json.loads(Path("benchmarks/records/networks-cuda.json").read_text())["networks"]
    best = {
        name: max(found["packed"], key=lambda way: way["images_per_second"])["runs"]
        for name, found in record.items()
        if found["packed"]
    }
    assert {"cifar10", "cifar100", "wide_resnet28_10", "vgg19"} <= best.keys()
    for name, runs in best.items():
        dataset, network = (name, None) if name.startswith(("cifar", "fashion")) else ("cifar10", name)
        configs = [configure(dataset, noise="symmetric:0.4", network=network, seed=seed) for seed in range(1, 30)]
        assert [each.start for each in runs_at_once(configs, "cuda").values()] == [runs]
    found = [configure(name, noise="symmetric:0.4") for name in ("mnist", "cifar10", "cifar100", "fashion_mnist")]
    others = ("wide_resnet28_10", "resnext29_32x4d", "vgg19")
    found += [configure("cifar10", noise="symmetric:0.4", network=name) for name in others]
    assert median(map(fastest_at_once, found)) == RUNS_PER_GPU
    assert fastest_at_once(found[0]) == SMALL_RUNS_PER_GPU
    assert fastest_at_once(configure("cifar10", noise="symmetric:0.4", network="resnet34")) is None
    assert fastest_at_once(configure("clothing1m")) is None  # was measured alone


@pytest.mark.parametrize(("shared", "environment"), [(True, {PROCESSORS_SHARE: "90"}), (False, {})])
def test_a_number_that_the_user_gives_is_kept(monkeypatch, shared, environment):
    monkeypatch.delenv(PROCESSORS_SHARE, raising=False)
    monkeypatch.setattr("tnlpad.grid.mps.mps", lambda device, say: nullcontext(shared))
    jobs = [job_of(number) for number in range(4)]
    configs = [configure("cifar10", noise="symmetric:0.4", device="cuda")]
    where = SimpleNamespace(on_ray=False, on_gpu=True, jobs=3, at_once=None, device="cuda", quiet=True)
    with _executor(configs, where, False) as execute:
        assert execute.keywords["workers"] == 3
        admit = execute.keywords["admit"]
    assert admit(jobs[2], jobs[:2]) == environment
    assert admit(jobs[3], jobs[:3]) is None
    assert all(search.settled for search in admit.searches.values())


# The executor


def wait_until_three(job):
    folder, name = job
    Path(folder, name).touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(list(Path(folder).iterdir()))


def test_the_executor_starts_what_is_admitted_while_others_run(tmp_path):
    jobs = [(str(tmp_path), f"job {number}") for number in range(3)]
    seen = []

    def admit(job, running):
        seen.append((job, list(running)))
        return {} if len(seen) != 2 else None  # the first two wait for the third

    with closing(execute(wait_until_three, jobs, workers=3, admit=admit)) as outcomes:
        assert [outcome.value for outcome in outcomes] == [3, 3, 3]
    assert seen[:3] == [(jobs[0], []), (jobs[1], jobs[:1]), (jobs[1], jobs[:1])]


def share_and_process(job):
    return os.environ.get("SHARE"), os.getpid()


def test_a_job_runs_in_a_process_with_its_environment(monkeypatch):
    monkeypatch.setenv("SHARE", "ours")
    wanted = [{"SHARE": "30"}, {"SHARE": "30"}, {"SHARE": "22"}, {}]
    with closing(execute(share_and_process, range(4), workers=1, admit=lambda job, running: wanted[job])) as outcomes:
        found = [outcome.value for outcome in outcomes]
    assert [share for share, _ in found] == ["30", "30", "22", "ours"]
    assert len({process for _, process in found}) == 3  # the first two share one
    assert os.environ["SHARE"] == "ours"


def lack_memory(job):
    """The second job fails beside the first, as on a GPU that is full; the third must not run beside the first."""
    folder, name = job
    running = folder / "first runs"
    if name == "first":
        running.touch()
        while not (folder / "second failed").exists():
            time.sleep(0.02)
        time.sleep(3)  # long enough for others to begin
        running.unlink()
        return name
    while not (folder / "second failed").exists() and not running.exists():
        time.sleep(0.02)
    if running.exists():
        (folder / "second failed").touch()
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return name


def test_a_job_without_memory_on_the_gpu_is_tried_again_with_fewer_others(tmp_path):
    jobs = [(tmp_path, name) for name in ("first", "second", "third")]
    with closing(execute(lack_memory, jobs, workers=2)) as outcomes:
        found = [(outcome.value, outcome.attempts) for outcome in outcomes]
    assert found == [("first", 1), ("third", 1), ("second", 2)]


def test_a_job_that_lacks_memory_by_itself_fails():
    with closing(execute(fail_for_memory, [0], workers=2)) as outcomes:
        assert [(outcome.error, outcome.attempts) for outcome in outcomes] == [("RuntimeError: CUDA out of memory.", 1)]


def fail_for_memory(job):
    raise RuntimeError("CUDA out of memory.")


def test_the_seconds_of_epochs_are_those_of_training(tmp_path):
    job = job_of(0, out=str(tmp_path))
    assert epoch_seconds(job) == []
    folder = RunFolder(tmp_path / job.run_id)
    folder.path.mkdir()
    for epoch, training in ((1, 60.0), (2, 4.0)):
        seconds = {"training": training, "measuring": 1.0}
        folder.append_epoch({"epoch": epoch, "validation_accuracy": 0.5, "test_accuracy": 0.5, "seconds": seconds})
    assert epoch_seconds(job) == [60.0, 4.0]
    folder.append_epoch({"epoch": 3, "validation_accuracy": 0.5, "test_accuracy": 0.5, "seconds": None})
    assert epoch_seconds(job) == []
