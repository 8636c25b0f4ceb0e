"""One training on several workers of a Ray cluster: lost workers, errors, and commands that are started wrongly."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from tests.ranks.comparison import without_times
from tests.ranks.launcher import succeeded
from tests.time_limit import time_limit
from tnlpad.cli import app
from tnlpad.data.progress import SILENT
from tnlpad.errors import DataError
from tnlpad.grid import ray_train as module
from tnlpad.grid.cluster import RayUnavailable, require_room
from tnlpad.grid.ray_train import RankFailed
from tnlpad.ranks.group import RankLost
from tnlpad.records.store import RunInUse, find_runs

TRAIN = ("digits.npz", "--noise", "symmetric:0.4", "--set", "milestones=9")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SECONDS = 240


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(SECONDS):
        yield


@pytest.fixture(scope="module")
def cluster():
    """Two cores of this machine, and the options that train there."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tnlpad[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")  # seconds until a lost worker or the end is noticed
        patch.setenv("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # a process less to start
        from ray.cluster_utils import Cluster

        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        yield ["--executor", "ray", "--ranks", "2", "--address", started.address]
        started.shutdown()


def train(*words):
    return CliRunner().invoke(app, ["train", *map(str, words)])


def the_run(out):
    (folder,) = find_runs(out)
    return folder


def workers_in(folder):
    """Return the processes of the ranks, which have the driver's current folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == folder and (entry / "cmdline").read_bytes().startswith(b"ray::RayTrain"):
                found.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return sorted(found)


@contextmanager
def kills(out, count, seed=1):
    """Kill a rank whenever another epoch is recorded, within the block."""
    ended, draw, killed = threading.Event(), random.Random(seed), []

    def kill():
        before = 0
        while len(killed) < count and not ended.wait(0.01):
            epochs = sum(file.read_bytes().count(b"\n") for file in out.glob("*/epochs.jsonl"))
            if epochs > before and len(pids := workers_in(Path.cwd())) == 2 and not set(pids) & set(killed):
                os.kill(pid := draw.choice(pids), signal.SIGKILL)
                killed.append(pid)
                before = epochs

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def assert_same(straight, killed):
    assert without_times(killed.epochs()) == without_times(straight.epochs())
    weights = [load_file(run.model_file) for run in (straight, killed)]
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert (killed.path / "scores.parquet").read_bytes() == (straight.path / "scores.parquet").read_bytes()
    ours, theirs = (
        {key: run.summary()[key] for key in run.summary() if key != "seconds"} for run in (straight, killed)
    )
    assert ours == theirs


def save_digits(folder):
    digits = load_digits()
    np.savez(folder / "digits.npz", images=digits.images.astype(np.uint8) * 16, labels=digits.target)


def trained_with_kills(cluster, tmp_path, monkeypatch, count, epochs):
    monkeypatch.chdir(tmp_path)  # all processes use it, so that paths may be relative
    save_digits(tmp_path)
    words = [*TRAIN, "--epochs", epochs]
    with kills(tmp_path / "killed", count) as killed:
        result = train(*words, *cluster, "--json", "--out", "killed")
    assert result.exit_code == 0, result.output
    assert len(killed) == count
    assert result.stderr.count("All ranks start again, from the last checkpoint.") == count
    assert f"{epochs}/{epochs} loss" in result.stderr
    assert json.loads(result.stdout) == the_run(tmp_path / "killed").summary()
    # Nothing is left beside the run: no file of ours, none of Ray Train's.
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [the_run(tmp_path / "killed").path.name]
    straight = ["train", tmp_path / "digits.npz", *words[1:], "--out", tmp_path / "straight"]
    succeeded("tnlpad", *straight, env=ENVIRONMENT)
    assert_same(the_run(tmp_path / "straight"), the_run(tmp_path / "killed"))


@pytest.mark.ray
def test_a_killed_worker_costs_nothing_but_time(cluster, tmp_path, monkeypatch):
    trained_with_kills(cluster, tmp_path, monkeypatch, count=1, epochs=12)


@pytest.mark.ray
@pytest.mark.long
def test_workers_are_killed_five_times(cluster, tmp_path, monkeypatch):
    with time_limit(3 * SECONDS):
        trained_with_kills(cluster, tmp_path, monkeypatch, count=5, epochs=25)


@pytest.mark.ray
def test_an_error_is_that_of_one_process_and_is_not_tried_again(cluster, tmp_path):
    words = ["digits", "--epochs", "3", "--set", "milestones=2", "--lr", "1e6", "--out", tmp_path]
    here, there = train(*words), train(*words, *cluster)
    assert (here.exit_code, there.exit_code) == (1, 1)
    assert here.stderr.splitlines()[-1].startswith("Error: The loss is")
    assert there.stderr.splitlines()[-1] == here.stderr.splitlines()[-1]
    assert "start again" not in there.stderr


@pytest.mark.ray
@pytest.mark.long
def test_ctrl_c_keeps_the_checkpoint(cluster, tmp_path):
    save_digits(tmp_path)
    words = ["-m", "tnlpad", "train", *TRAIN, "--epochs", "400", *cluster, "--out", "runs"]
    command = subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    try:
        while not list(tmp_path.glob("runs/*/epochs.jsonl")) and command.poll() is None:
            time.sleep(0.05)
        workers = workers_in(tmp_path)
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=60)
        assert command.returncode == 130, errors
        assert "Run the command again to resume." in errors
        while any(Path(f"/proc/{pid}").exists() for pid in workers):
            time.sleep(0.05)
        assert the_run(tmp_path / "runs").epoch_count > 0
    finally:
        command.kill()


@pytest.mark.ray
def test_more_ranks_than_the_cluster_has_cores_are_refused(cluster, tmp_path):
    result = train("digits", "--executor", "ray", "--ranks", "3", *cluster[4:], "--out", tmp_path / "runs")
    assert result.exit_code == 1
    assert "3 ranks need 0 GPUs and 1 CPUs each" in result.stderr
    assert "room for 2" in result.stderr
    assert not (tmp_path / "runs").exists()


# Without a cluster ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranks", "4"], "torchrun --nproc-per-node 4 -m tnlpad train digits"),
        (["--rank-cpus", "2"], "--rank-cpus needs --executor ray"),
        (["--address", "head:6379"], "--address needs --executor ray"),
        (["--executor", "ray", "--device", "cuda:1"], "--device cuda:1: Ray chooses the GPU"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, message):
    result = train("digits", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_torchrun_and_ray_exclude_each_other(monkeypatch):
    launched = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    result = train("digits", "--executor", "ray")
    assert result.exit_code == 2
    assert "torchrun started 2 processes" in result.stderr


def test_ranks_are_spread_over_machines():
    machines = [{"Alive": True, "Resources": {"CPU": 5.0, "GPU": 2.0}}] * 2
    ray = SimpleNamespace(nodes=lambda: machines)
    require_room(ray, {"CPU": 2, "GPU": 1}, workers=4)
    with pytest.raises(RayUnavailable, match="5 ranks need 1 GPUs and 2 CPUs each, but the cluster has room for 4"):
        require_room(ray, {"CPU": 2, "GPU": 1}, workers=5)
    with pytest.raises(RayUnavailable, match="room for 2"):
        require_room(ray, {"CPU": 3, "GPU": 0}, workers=3)


def failed(**failures):
    return SimpleNamespace(worker_failures={int(name[1:]): error for name, error in failures.items()})


def test_a_failed_rank_counts_before_lost_ones():
    error = DataError("no such file")
    sent = pickle.loads(pickle.dumps(RankFailed("machine", error, "Traceback …")))
    with pytest.raises(DataError, match="no such file"):
        module._lost(failed(r0=RankLost("connection closed"), r1=sent), SILENT, again=False)
    # What was lost is the rank without an answer, not the one that noticed it.
    lost = module._lost(failed(r0=RankLost("connection closed"), r1=OSError("actor died")), SILENT, again=False)
    assert lost.startswith("Rank 1 was lost")


def test_a_lock_that_a_lost_worker_still_holds_is_waited_for():
    busy = failed(r0=RankFailed("machine", RunInUse("runs/x is in use"), ""))
    assert "is in use" in module._lost(busy, SILENT, again=True)
    with pytest.raises(RunInUse):
        module._lost(busy, SILENT, again=False)


def test_attempts_without_a_new_epoch_are_limited():
    said = []
    reporter = SimpleNamespace(say=said.append)
    folder = SimpleNamespace(epoch_count=0)
    progress = iter([1, 2, 3, 4, 5, 5, 5])

    def attempt(again):
        folder.epoch_count = next(progress)
        return "Rank 1 was lost."

    with pytest.raises(RankLost, match="3 times without a new epoch"):
        module._repeat(attempt, folder, reporter)
    assert len(said) == 6
