"""Ranks that are killed, hang or fail; commands that are started wrongly."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import pytest
from typer.testing import CliRunner

from tests.ranks.comparison import without_times
from tests.ranks.launcher import ROOT, command, succeeded, torchrun
from tnlpad.cli import app
from tnlpad.records.store import find_runs
from tnlpad.runs.config import configure
from tnlpad.runs.run import run

TRAIN = ("tnlpad", "train", "digits", "--noise", "symmetric:0.4", "--scores")
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}


def the_run(out):
    (folder,) = find_runs(out)
    return folder


def ranks_of(launcher):
    """Return the processes of the ranks, by their number."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == launcher.pid:
                environment = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if item)
                found[int(environment["RANK"])] = int(entry.name)
        except (OSError, KeyError, ValueError):  # it has just ended, or is no rank
            continue
    return found


@contextmanager
def launched(arguments):
    """Start ranks; after the block, or two minutes, end all that are left."""
    launcher = subprocess.Popen(command(*arguments), cwd=ROOT, env=ALONE, stderr=subprocess.PIPE, text=True)

    def end():
        for process in (launcher.pid, *ranks_of(launcher).values()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    timer = Timer(120, end)
    timer.start()
    try:
        yield launcher
    finally:
        timer.cancel()
        end()
        launcher.communicate(timeout=60)


def killed_in_the_middle(arguments, epochs_before, rank):
    """Start a training, kill one rank as soon as an epoch more is recorded, and wait until the launcher gives up."""
    out = Path(arguments[-1])
    with launched(arguments) as launcher:
        while launcher.poll() is None:
            files = list(out.glob("*/epochs.jsonl"))
            if files and files[0].read_bytes().count(b"\n") > epochs_before and rank in (ranks := ranks_of(launcher)):
                os.kill(ranks[rank], signal.SIGKILL)
                break
            time.sleep(0.01)
        launcher.communicate(timeout=100)


def trained_with_kills(tmp_path, kills, epochs):
    settings = ("--epochs", epochs, "--set", "milestones=2", "--out")
    succeeded(*TRAIN, *settings, tmp_path / "straight", env=ALONE)
    draw, killed = random.Random(1), (*TRAIN, *settings, tmp_path / "killed")
    for _ in range(kills):
        runs = list(find_runs(tmp_path / "killed"))
        before = runs[0].epoch_count if runs else 0
        killed_in_the_middle(killed, before, draw.randrange(2))
        assert not the_run(tmp_path / "killed").finished
    succeeded(*killed, env=ALONE)
    return [the_run(tmp_path / name) for name in ("straight", "killed")]


def assert_equal_records(straight, killed):
    assert without_times(killed.epochs()) == without_times(straight.epochs())
    assert killed.model_file.read_bytes() == straight.model_file.read_bytes()
    scores = [(run.path / "scores.parquet").read_bytes() for run in (straight, killed)]
    assert scores[0] == scores[1]
    changing = ("seconds",)
    ours, theirs = ({k: v for k, v in run.summary().items() if k not in changing} for run in (straight, killed))
    assert ours == theirs
    assert list(killed.path.glob(".*.tmp")) == []


def test_a_killed_rank_costs_nothing_but_time(tmp_path):
    assert_equal_records(*trained_with_kills(tmp_path, kills=1, epochs=4))


@pytest.mark.long
def test_a_rank_is_killed_twenty_times(tmp_path):
    assert_equal_records(*trained_with_kills(tmp_path, kills=20, epochs=30))


def test_a_rank_that_hangs_is_named(tmp_path):
    arguments = (*TRAIN, "--epochs", "500", "--rank-timeout", "5", "--out", str(tmp_path))
    with launched(arguments) as launcher:
        while not list(tmp_path.glob("*/epochs.jsonl")):
            assert launcher.poll() is None
            time.sleep(0.05)
        os.kill(ranks_of(launcher)[1], signal.SIGSTOP)
        named = next((line for line in launcher.stderr if line.startswith("Error")), "nothing")
    assert named.startswith("Error: Rank 1 was killed or hangs: no answer within 5 seconds")
    assert the_run(tmp_path).epoch_count > 0


def test_wrong_usage_is_said_once(tmp_path):
    done = torchrun("tnlpad", "train", "digits", "--method", "magic", "--out", tmp_path, env=ALONE)
    assert done.returncode != 0
    assert done.stderr.count("magic") == 1


def test_other_commands_are_refused():
    launched = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    result = CliRunner().invoke(app, ["demo"], env=launched)
    assert result.exit_code == 2
    assert "torchrun started 2 processes" in result.stderr
    result = CliRunner().invoke(app, ["demo"], env=launched | {"RANK": "1"})
    assert (result.exit_code, result.stderr) == (2, "")


def test_ranks_take_up_what_one_process_left(tmp_path):
    folder = run(configure("digits", noise="symmetric:0.4", settings={"epochs": 1}), tmp_path)
    arguments = ("tnlpad", "train", "digits", "--noise", "symmetric:0.4", "--epochs", "1", "--out", tmp_path)
    again = succeeded(*arguments, "--json", env=ALONE)
    assert json.loads(again.stdout)["run_id"] == folder.path.name
    folder.summary_file.unlink()
    with folder.lock():
        done = torchrun(*arguments, env=ALONE)
    assert done.stderr.count("is in use by another process") == 1
