import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from filelock import FileLock

from tests.experiments.test_run import content
from tests.experiments.time_limit import time_limit
from tnlpad.experiments.config import configure, from_json
from tnlpad.experiments.ray_executor import RayUnavailable, SendBack, execute_on_ray
from tnlpad.experiments.run import run
from tnlpad.records.store import RunFolder, RunInUse, find_runs

SECONDS = 240  # a start takes a few, a lost machine is noticed after some more


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(SECONDS):
        yield


@pytest.fixture(scope="module")
def ray():
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'tnlpad[ray]'")


@pytest.fixture(scope="module")
def start(ray):
    """Starts Ray on this machine, given a folder for temporary files that is not shared with any other machine."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

    def started(scratch):
        first = {"num_cpus": 2, "num_gpus": 1, "env_vars": {"TMPDIR": str(scratch)}}
        return Cluster(initialize_head=True, head_node_args=first)

    return started


@pytest.fixture(scope="module")
def one_machine(start, tmp_path_factory):
    machine = start(tmp_path_factory.mktemp("scratch"))
    yield machine
    machine.shutdown()


@pytest.fixture
def on_ray(one_machine):
    """The executor on one machine of two cores and a GPU, at least by its own account."""
    return partial(execute_on_ray, address=one_machine.address, gpus_per_run=0)


# Jobs


def act(job):
    match job:
        case "raise":
            raise RuntimeError("no luck")
        case "os._exit":
            os._exit(3)
        case "return a function of its own":
            return lambda: None
        case "threads":
            return torch.get_num_threads()
    return job


def meet(folder):
    """Ends only if two are at it at the same time."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.05)
    return os.environ["CUDA_VISIBLE_DEVICES"]


def announce_and_sleep(path):
    with FileLock(path.with_suffix(".lock")):
        path.write_text(str(os.getpid()))
        time.sleep(3600)


class Training(NamedTuple):
    """A run that gets stuck after its first epoch on one machine, of which it leaves a note."""

    config: dict
    out: Path
    notes: Path
    stuck_on: str

    @property
    def folder(self):
        return self.out / from_json(self.config).run_id


def train(job):
    import ray

    here = ray.get_runtime_context().get_node_id()
    note = job.notes / f"{job.folder.name}.{here}"
    note.touch()

    def on_epoch(record):
        if here == job.stuck_on:
            note.write_text("stuck")
            time.sleep(3600)

    while True:
        try:
            return run(from_json(job.config), job.out, on_epoch=on_epoch).path.name
        except RunInUse:  # by a process of the lost machine, which is about to end
            time.sleep(0.1)


def folder(job):
    return job.folder


def moved(job, out):
    return job._replace(out=out)


# A machine is lost


@pytest.mark.ray
@pytest.mark.parametrize("send_back", [None, SendBack(folder=folder, moved=moved)], ids=["shared folder", "sent back"])
def test_a_machine_killed_in_the_middle_of_a_grid(start, tmp_path, send_back):
    settings = {"epochs": 2, "batch_size": 256}
    configs = [configure("digits", noise="symmetric:0.4", seed=seed, settings=settings) for seed in range(12)]
    out, notes, first, second = (tmp_path / name for name in ("runs", "notes", "first", "second"))
    for path in (notes, first, second):
        path.mkdir()
    machines = start(first)
    try:
        doomed = machines.add_node(num_cpus=2, env_vars={"TMPDIR": str(second)})
        jobs = [Training(config.to_json(), out, notes, doomed.node_id) for config in configs]
        running = execute_on_ray(train, jobs, address=machines.address, gpus_per_run=0, send_back=send_back)
        with closing(running) as outcomes:
            ended = [next(outcomes)]
            while not (stuck := [note.stem for note in notes.glob(f"*.{doomed.node_id}") if note.read_text()]):
                time.sleep(0.05)
            machines.remove_node(doomed, allow_graceful=False)
            ended += outcomes
    finally:
        machines.shutdown()
    assert sorted(outcome.value for outcome in ended) == sorted(config.run_id for config in configs)
    assert {outcome.error for outcome in ended} == {None}
    for outcome in ended:
        # Others may have been lost on their way to the machine or at the start of their training.
        starts = len(list(notes.glob(f"{outcome.value}.*")))
        assert 1 <= starts <= outcome.attempts <= 2
        assert starts == 2 or outcome.value not in stuck
    # One whole record each, the same as without any of this.
    assert [found.path.name for found in find_runs(out)] == sorted(config.run_id for config in configs)
    for config in configs:
        assert content(RunFolder(out / config.run_id)) == content(run(config, tmp_path / "undisturbed"))
        assert not list((out / config.run_id).glob(".*"))
    # What was sent is not kept where it was made, and what was interrupted is still there.
    assert list(first.rglob("config.json")) == []
    interrupted = {path.parent.name for path in second.rglob("checkpoint.pt")}
    assert interrupted >= set(stuck) if send_back else not interrupted


# On one machine


@pytest.mark.ray
def test_jobs_that_fail_are_reported_and_the_others_go_on(on_ray):
    jobs = [1, "raise", "os._exit", "return a function of its own", "threads", 2]
    outcomes = {outcome.job: outcome for outcome in on_ray(act, jobs, retries=1)}
    assert outcomes.keys() == set(jobs)
    assert [outcomes[job].value for job in jobs] == [1, None, None, None, 1, 2]
    assert [outcomes[job].attempts for job in jobs] == [1, 1, 2, 1, 1, 1]
    assert outcomes["raise"].error == "RuntimeError: no luck"
    assert "in act" in outcomes["raise"].traceback
    assert "was lost (WorkerCrashedError); attempts: 2" in outcomes["os._exit"].error
    assert "pickle" in outcomes["return a function of its own"].error
    assert list(on_ray(act, [])) == []


@pytest.mark.ray
def test_runs_share_a_gpu_by_fractions(on_ray, tmp_path):
    assert [outcome.value for outcome in on_ray(meet, [tmp_path, tmp_path], gpus_per_run=0.5)] == ["0", "0"]


@pytest.mark.ray
def test_a_job_that_fits_no_machine_is_refused(on_ray):
    with pytest.raises(RayUnavailable, match=r"2 GPUs and 1 CPUs.*1 GPUs and 2 CPUs\). Ask for less"):
        next(on_ray(act, [1], gpus_per_run=2))


@pytest.mark.ray
def test_a_run_that_cannot_be_received_is_that_jobs_failure(on_ray, tmp_path):
    config = configure("digits", noise="symmetric:0.4", settings={"epochs": 1, "batch_size": 256})
    (tmp_path / "in the way").touch()
    jobs = [Training(config.to_json(), tmp_path / name, tmp_path, "") for name in ("runs", "in the way")]
    good, bad = on_ray(train, jobs, send_back=SendBack(folder=folder, moved=moved), cpus_per_run=2)
    assert (good.value, good.error) == (config.run_id, None)
    assert good.job.folder.joinpath("summary.json").exists()
    assert bad.value is None
    assert "in the way" in bad.error


@pytest.mark.ray
def test_where_the_driver_has_no_space_no_further_run_is_received(on_ray, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tnlpad.experiments.ray_executor.unpack", full)
    config = configure("digits", noise="symmetric:0.4", settings={"epochs": 1, "batch_size": 256})
    jobs = [Training(config.to_json(), tmp_path / "runs", tmp_path, "")]
    with pytest.raises(OSError, match="No space left"):
        list(on_ray(train, jobs, send_back=SendBack(folder=folder, moved=moved)))


@pytest.mark.ray
def test_closing_early_stops_the_jobs_and_leaves_a_connection_that_was_there(one_machine, on_ray, ray, tmp_path):
    jobs = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    ray.init(address=one_machine.address, log_to_driver=False)
    try:
        with closing(on_ray(announce_and_sleep, jobs, retries=0)) as outcomes, killed_when_there(jobs[0]):
            next(outcomes)
        assert ray.is_initialized()
        released(jobs)
    finally:
        ray.shutdown()


@pytest.mark.ray
def test_when_the_driver_is_killed_no_job_goes_on(one_machine, tmp_path):
    code = (
        "import sys, pathlib\nfrom tests.experiments.test_ray_executor import announce_and_sleep, execute_on_ray\n"
        "list(execute_on_ray(announce_and_sleep, [pathlib.Path(sys.argv[2])], address=sys.argv[1], gpus_per_run=0))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    job = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", code, one_machine.address, job], env=environment) as driver:
        while not job.exists():
            time.sleep(0.05)
        driver.kill()
    assert driver.returncode == -signal.SIGKILL
    released([job])


def killed_when_there(path):
    """Another process, to kill the one that leaves its number in this file."""
    code = f"import os, time, pathlib; p = pathlib.Path({str(path)!r})\n"
    code += "while not (p.exists() and p.read_text()): time.sleep(0.05)\nos.kill(int(p.read_text()), 9)"
    return subprocess.Popen([sys.executable, "-c", code])


def released(jobs):
    for job in jobs:
        with FileLock(job.with_suffix(".lock"), timeout=60):  # held for an hour by whoever goes on
            pass


# Without a cluster


def test_nobody_at_the_address(ray):
    with pytest.raises(RayUnavailable, match=r"No Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        next(execute_on_ray(act, [1], address="127.0.0.1:1", gpus_per_run=0))


def test_without_ray_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayUnavailable, match=r"pip install 'tnlpad\[ray\]'"):
        execute_on_ray(act, [1], address=None, gpus_per_run=0)


@pytest.mark.parametrize("name", ["gpus_per_run", "cpus_per_run", "retries"])
def test_numbers_below_zero_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=-1: must be at least 0"):
        execute_on_ray(act, [1], **{"address": None, "gpus_per_run": 0, name: -1})
