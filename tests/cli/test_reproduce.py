import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.synthetic_runs import write_run
from tnlpad.cli import app
from tnlpad.cli.plan_text import what_is_left
from tnlpad.grid.estimate import seconds_left
from tnlpad.grid.mps import AtOnce, kind_of
from tnlpad.grid.reproduce import PlannedStatus, experiments, plan, select
from tnlpad.paper_figures.tsne import Shown
from tnlpad.records.archive import archive, write_archived
from tnlpad.records.store import RunFolder, find_runs
from tnlpad.runs.config import configure
from tnlpad.runs.run import run

# A part of the grid, so that figures are not computed beside it.
PART = ["smoke", "--only", "digits/symmetric-0.2"]
FAST_SETTINGS = {"epochs": 2, "batch_size": 256}
FAST = ["--set", "epochs=2", "--set", "batch_size=256", "--device", "cpu"]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def part(seeds=(1, 2), **settings):
    """The runs of PART."""
    given = {"epochs": 2, "batch_size": 256, **settings}
    return plan(select(experiments("smoke"), only=["digits/symmetric-0.2"]), seeds=seeds, settings=given)


def message(result):
    """stderr without its line breaks, which depend on the width."""
    return " ".join(result.stderr.split())


# The plan


def test_a_dry_run_says_what_would_be_done_and_does_nothing(out):
    result = reproduce(*PART, "--device", "cpu", "--dry-run", "--out", out)
    assert result.exit_code == 0, result.output
    assert "smoke: Everything once, on digits" in result.stdout
    assert re.search(r"6 runs are left, about \d+ CPU seconds?, \d+ s with --jobs", result.stdout)
    assert not out.exists()


def test_the_plan_of_a_gpu_can_be_made_without_one(out):
    result = reproduce("simulated", "--dry-run", "--device", "cuda", "--jobs", 4, "--out", out)
    assert result.exit_code == 0, result.output
    assert "1,440 runs are left, about" in result.stdout
    assert "GPU hours. Estimated: 1,440 from recorded step times (" in " ".join(result.stdout.split())


def test_runs_that_shared_a_gpu_took_a_part_of_it_each(out):
    first = plan(select(experiments("smoke"), only=["digits/symmetric-0.2"]), seeds=[1], device="cuda")[0]
    folder = write_run(out, first.experiment, 1, epochs=40, settings={"precision": "bfloat16", "compiled": True})
    assert folder.path.name == first.run_id
    folder.summary_file.write_text(json.dumps({**folder.summary(), "seconds": {"epochs": 14400}}))
    words = [*PART, "--seeds", 1, "--dry-run", "--device", "cuda", "--out", out]
    assert "2 runs are left, about 8.0 GPU hours. Estimated: 2 from similar runs in" in reproduce(*words).stdout
    result = reproduce(*words, "--jobs", 4)
    assert "2 runs are left, about 2.0 GPU hours" in result.stdout
    assert "4 at once" in result.stdout


def test_runs_of_each_kind_shared_a_gpu_with_as_many_as_begin_at_once(out, monkeypatch):
    first = plan(select(experiments("smoke"), only=["digits/symmetric-0.2"]), seeds=[1], device="cuda")[0]
    folder = write_run(out, first.experiment, 1, epochs=40, settings={"precision": "bfloat16", "compiled": True})
    folder.summary_file.write_text(json.dumps({**folder.summary(), "seconds": {"epochs": 14400}}))
    kind = kind_of(first.config.to_json())
    other = ("another", *kind[1:])
    monkeypatch.setattr(
        "tnlpad.grid.mps.runs_at_once",
        lambda configs, device: {kind: AtOnce(start=2, most=2), other: AtOnce(start=8, most=8)},
    )
    text = reproduce(*PART, "--seeds", 1, "--dry-run", "--device", "cuda", "--out", out).stdout
    assert "2 runs are left, about 4.0 GPU hours" in text  # two runs of four hours, two at once
    assert "assuming they were run as many at once" in " ".join(text.split())


def test_as_many_runs_share_a_gpu_as_fill_it_unless_one_says(out, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "tnlpad.grid.mps.runs_at_once",
        lambda configs, device: asked.append((device, list(configs))) or {"kind": AtOnce(start=7, most=9)},
    )
    words = ["simulated", "--only", "cifar10/symmetric-0.4", "--dry-run", "--out", out]
    seven = reproduce(*words, "--device", "cuda").stdout
    assert (asked[0][0], {config.dataset for config in asked[0][1]}) == ("cuda", {"cifar10"})
    assert seven == reproduce(*words, "--device", "cuda", "--jobs", 7).stdout
    reproduce(*words, "--device", "cpu")
    reproduce(*words, "--device", "cuda", "--executor", "ray")  # whose machines nobody knows here
    assert len(asked) == 1


def test_archived_runs_count_as_done(out, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    first, *_ = part(seeds=[1])
    write_archived(archive(write_run(tmp_path / "elsewhere", first.experiment, 1, settings=FAST_SETTINGS)), kept)
    words = [*PART, *FAST, "--seeds", 1, "--dry-run", "--out", out]
    assert "3 runs are left" in reproduce(*words).stdout
    assert "2 runs are left" in reproduce(*words, "--have", kept).stdout
    states = {each["run_id"]: each["state"] for each in json.loads(reproduce(*words, "--have", kept, "--json").stdout)}
    assert states.pop(first.run_id) == "done"
    assert set(states.values()) == {"missing"}
    (kept / "damaged.json").write_text("{")
    assert "damaged.json" in message(reproduce(*words, "--have", kept))
    nowhere = reproduce(*words, "--have", tmp_path / "nowhere")
    assert nowhere.exit_code == 2
    assert "nowhere" in message(nowhere)


def test_archived_runs_of_a_gpu_count_as_done_on_a_cpu_and_the_other_way_round(out, tmp_path):
    (planned,) = plan(select(experiments("smoke"), only=["digits/symmetric-0.4"], methods=["standard"]), seeds=[1])
    kept = tmp_path / "kept"
    kept.mkdir()
    on_gpu = {"precision": "bfloat16", "compiled": True}
    settings = {**planned.experiment.settings, **on_gpu}
    write_archived(archive(write_run(tmp_path / "gpu", planned.experiment, 1, settings=settings)), kept)
    words = ["smoke", "--only", "digits/symmetric-0.4", "--methods", "standard", "--seeds", 1, "--dry-run"]
    words += ["--have", kept, "--out", out]
    for device in ("cpu", "cuda"):
        assert "Nothing is left to run" in reproduce(*words, "--device", device).stdout
    # Whoever asks for a precision means that one.
    assert "1 run is left" in reproduce(*words, "--device", "cuda", "--set", "precision=float32").stdout
    assert "1 run is left" in reproduce(*words, "--device", "cpu", "--set", "compiled=true").stdout


def test_json_has_the_runs_of_a_computed_figure_and_their_problem(out, monkeypatch):
    def fails(*_, **__):
        raise ValueError("no luck")

    words = ("parameter_space", "--device", "cpu", "--out", out, "--json")
    planned = json.loads(reproduce(*words, "--dry-run").stdout)
    monkeypatch.setattr("tnlpad.paper_figures.parameter_space.compute", fails)
    failed = reproduce(*words)
    assert failed.exit_code == 1
    assert json.loads(failed.stdout) == [each | {"problem": "no luck"} for each in planned]
    assert [each["state"] for each in planned] == ["missing"] * 3


def test_json_has_an_entry_for_every_run(out):
    result = reproduce("simulated", "--seeds", "1-5", "--dry-run", "--json", "--quiet", "--device", "cpu", "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    entries = json.loads(result.stdout)
    assert len(entries) == 1440
    assert entries[0] == {
        "run_id": entries[0]["run_id"],
        "state": "missing",
        "dataset": "mnist",
        "noise": "symmetric:0.2",
        "method": "standard",
        "network": "lenet",
        "seed": 1,
        "cells": ["simulated/mnist/symmetric-0.2/standard"],
        "command": "tnlpad train mnist --noise symmetric:0.2 --method standard --seed 1",
        "seconds_left": entries[0]["seconds_left"],
        "problem": None,
        "repair": None,
    }


@pytest.mark.parametrize("target", ["beta", "datasets"])
def test_what_needs_no_runs_points_to_the_report(out, target):
    for options in (["--dry-run"], []):
        result = reproduce(target, "--out", out, *options)
        assert result.exit_code == 0
        assert f"tnlpad report {out} --out report" in result.stdout


def test_states_are_counted(out):
    first, second, *_ = part()
    run(first.config, out)
    folder = RunFolder(out / second.run_id)
    folder.begin(second.config.to_json())
    with folder.lock():
        result = reproduce(*PART, *FAST, "--dry-run", "--json", "--out", out)
    states = {each["run_id"]: each["state"] for each in json.loads(result.stdout)}
    assert (states.pop(first.run_id), states.pop(second.run_id)) == ("done", "running")
    assert set(states.values()) == {"missing"}
    folder.summary_file.write_text("{")
    result = reproduce(*PART, *FAST, "--dry-run", "--out", out)
    assert "damaged" in result.stdout
    assert "5 runs are left" in result.stdout  # the damaged one as well
    assert "from similar runs in" in result.stdout
    assert f"{folder.summary_file} is damaged" in result.stderr
    assert f"Repair: `rm -r {folder.path}`" in message(result)
    entries = json.loads(reproduce(*PART, *FAST, "--dry-run", "--json", "--out", out).stdout)
    assert {each["run_id"]: each["repair"] for each in entries if each["repair"]} == {
        second.run_id: f"rm -r {folder.path}"
    }


# Wrong words


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["smok"], "did you mean smoke?"),
        (["simulated", "--only", "cifar10/symetric-0.4"], "There are: mnist, symmetric-0.2"),
        (["simulated", "--methods", "tnlpat"], "did you mean tnlpad?"),
        (["tsne", "--methods", "tnlpad"], "has no parts to choose from"),
        (["tsne", "--seeds", "1-3"], "Give one seed"),
        (["tsne", "--patience", "3"], "--patience: tsne shows"),
        (["tsne", "--set", "epoch=60"], "did you mean epochs?"),
        (["tsne", "--executor", "ray", "--device", "cpu"], "computed on this machine"),
        (["parameter_space", "--protocol", "authors"], "--protocol authors"),
        (["smoke", "--seeds", "one"], "write 1-3 or 1,2,5"),
        (["smoke", "--seeds", "3-1"], "--seeds 3-1"),
        (["smoke", "--jobs", "0"], "--jobs"),
        (["smoke", "--patience", "0"], "--patience"),
        (["smoke", "--executor", "slurm"], "--executor"),
        (["smoke", "--protocol", "mine"], "--protocol"),
        (["smoke", "--set", "epoch=3"], "did you mean epochs?"),
        (["smoke", "--set", "epochs"], "NAME=VALUE"),
        (["smoke", "--set", "seed=3"], "with --seed"),
        (["smoke", "--send-back"], "--send-back needs --executor ray"),
        (["smoke", "--address", "here:6379"], "--address needs --executor ray"),
        (["smoke", "--device", "tpu"], "choose cpu, cuda or auto"),
        (["smoke", "--executor", "ray", "--device", "cuda:1"], "Ray chooses the GPU"),
        (["smoke", "--patience", "3", "--set", "patience=5"], "--patience 3 and --set patience=5 contradict"),
        (["smoke", "--device", "tpu", "--dry-run"], "choose cpu, cuda or auto"),
        ([], "TABLE_OR_FIGURE"),
    ],
)
def test_wrong_usage_says_what_is_right_and_leaves_nothing(out, arguments, wanted):
    result = reproduce(*arguments, "--out", out)
    assert result.exit_code == 2, result.output
    assert wanted in message(result)
    assert not out.exists()


def test_an_out_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("kept")
    result = reproduce(*PART, *FAST, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    result = reproduce(*PART, *FAST, "--out", "/proc/nowhere")
    assert result.exit_code == 1
    assert "cannot write there" in result.stderr


def test_missing_data_are_told_before_anything_is_run(out, tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.grid.grid.run_grid", lambda *_, **__: pytest.fail("ran"))
    words = ["simulated", "--only", "mnist", "--device", "cpu", "--root", tmp_path / "data", "--out", out]
    result = reproduce(*words)
    assert result.exit_code == 3
    assert result.stderr.count("tnlpad data get mnist") == 1
    assert "tnlpad data get mnist" in reproduce(*words, "--dry-run").stderr


# Carrying it out


@pytest.fixture
def here(monkeypatch):
    """Run in this process: no other tests of what a worker does are needed."""
    from tnlpad.grid.executors import execute

    monkeypatch.setattr("tnlpad.grid.executors.execute", lambda function, jobs, **_: execute(function, jobs, workers=0))


def test_what_is_missing_is_run_and_a_second_time_nothing(out, here, monkeypatch):
    run(part()[0].config, out)
    result = reproduce(*PART, *FAST, "--out", out)
    assert result.exit_code == 0, result.output
    assert "6 of 6 runs are done" in result.stdout
    assert f"tnlpad report {out} --out report" in result.stdout
    assert result.stderr.count(" test ") == 5
    assert "differ from the paper's" in message(result)
    monkeypatch.setattr("tnlpad.runs.run.run", lambda *_, **__: pytest.fail("repeated"))
    again = reproduce(*PART, *FAST, "--out", out)
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert "Nothing is left to run" in again.stderr


def test_failures_are_listed_at_the_end_and_the_others_are_done(out, here):
    bad = part()[0]
    folder = RunFolder(out / bad.run_id)
    folder.begin(bad.config.to_json())
    folder.summary_file.write_text("{")
    result = reproduce(*PART, *FAST, "--out", out, "--json", "--quiet")
    assert result.exit_code == 1
    entries = {each["run_id"]: each for each in json.loads(result.stdout)}
    assert "is damaged" in entries.pop(bad.run_id)["problem"]
    assert {each["state"] for each in entries.values()} == {"done"}
    assert "1 failed" in result.stderr
    assert f"rm -r {folder.path}" in result.stderr
    assert entries[part()[1].run_id]["problem"] is None


def test_a_setting_that_ruins_every_run(out, here):
    result = reproduce(*PART, *FAST, "--set", "learning_rate=1e6", "--out", out, "--quiet")
    assert result.exit_code == 1
    assert "6 failed" in result.stderr
    assert "tnlpad train digits --noise symmetric:0.2" in result.stderr


def test_patience_is_part_of_the_runs(out):
    result = reproduce(*PART, "--patience", 7, "--dry-run", "--json", "--device", "cpu", "--out", out)
    assert all("--set patience=7" in each["command"] for each in json.loads(result.stdout))
    assert "at most about" in reproduce(*PART, "--patience", 7, "--dry-run", "--out", out).stdout


def test_an_interrupt_keeps_what_is_done(out, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("tnlpad.grid.grid.run_grid", interrupted)
    result = reproduce(*PART, *FAST, "--out", out)
    assert result.exit_code == 130
    assert "Run the command again to resume" in result.stderr


def test_ray_is_asked_for_fractions_of_a_gpu(out, monkeypatch):
    asked = {}

    def on_ray(function, jobs, **options):
        asked.update(options)
        yield from ()

    def nothing(configs, folder, *, execute, **_):
        list(execute(None, []))
        yield from ()

    monkeypatch.setattr("tnlpad.grid.ray.execute_on_ray", on_ray)
    monkeypatch.setattr("tnlpad.grid.grid.run_grid", nothing)
    words = ["--executor", "ray", "--device", "cuda", "--jobs", 4, "--address", "head:6379", "--send-back"]
    result = reproduce(*PART, *words, "--out", out)
    assert result.exit_code == 0, result.output
    assert (asked["gpus_per_run"], asked["address"]) == (0.25, "head:6379")
    assert asked["send_back"] is not None
    reproduce(*PART, "--executor", "ray", "--device", "cpu", "--out", out)
    assert (asked["gpus_per_run"], asked["send_back"]) == (0, None)


def test_extras_are_computed_after_the_runs_and_their_failures_told(out, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no luck")

    monkeypatch.setattr("tnlpad.paper_figures.tsne.compute", broken)
    result = reproduce("tsne", "--device", "cpu", "--out", out)
    assert result.exit_code == 1
    assert f"- RuntimeError: no luck (traceback: {out / 'tsne-error.txt'})" in result.stderr
    assert "Traceback" in (out / "tsne-error.txt").read_text()


def test_the_plan_of_a_computed_figure_has_its_runs_data_and_time(out, tmp_path):
    result = reproduce("tsne", "--dry-run", "--device", "cuda", "--root", tmp_path, "--out", out)
    assert result.exit_code == 0, result.output
    assert "cifar10" in result.stdout
    assert re.search(r"4 runs are left, about [\d.]+ GPU (minutes|hours)", result.stdout)
    assert "tnlpad data get cifar10" in result.stderr
    entries = json.loads(reproduce("tsne", "--dry-run", "--json", "--device", "cuda", "--out", out).stdout)
    assert {(each["noise"], each["method"]) for each in entries} == {
        (noise, method) for noise in ("pairflip:0.4", "instance:0.4") for method in ("standard", "tnlpad")
    }
    whole = seconds_left(configure("cifar10", noise="pairflip:0.4", device="cuda"), 0, {}, "cuda")[0]
    assert entries[1]["seconds_left"] == pytest.approx(whole * 45 / 100)  # the last epoch that is shown
    folder = out / "tsne" / entries[0]["run_id"]
    folder.mkdir(parents=True)
    for epoch in (5, 25, 45):
        (folder / f"features-{epoch}.npz").touch()
    assert "3 runs are left" in reproduce("tsne", "--dry-run", "--device", "cuda", "--out", out).stdout
    smoke = reproduce("smoke", "--dry-run", "--device", "cpu", "--out", out)
    assert "parameter_space is computed from runs of its own" in smoke.stdout
    assert smoke.stderr.count("Note") == 0  # digits are here


def test_a_computed_figure_is_the_one_that_was_asked_for(out, monkeypatch):
    asked = []
    monkeypatch.setattr("tnlpad.paper_figures.tsne.compute", lambda out, shown, **_: asked.append(shown))
    words = ["--seeds", 3, "--protocol", "authors", "--set", "batch_size=32", "--device", "cpu", "--out", out]
    result = reproduce("tsne", *words)
    assert result.exit_code == 0, result.output
    assert asked == [Shown(seed=3, protocol="authors", settings={"batch_size": "32"})]
    assert result.stdout == f"Tables and figures: tnlpad report {out} --out report\n"


def test_as_parts_of_a_grid_computed_figures_are_as_ever(out, monkeypatch):
    asked = []
    monkeypatch.setattr("tnlpad.grid.grid.run_grid", lambda *_, **__: (_ for _ in ()))
    monkeypatch.setattr("tnlpad.paper_figures.tsne.compute", lambda out, shown, **_: asked.append(shown))
    monkeypatch.setattr("tnlpad.paper_figures.parameter_space.compute", lambda *_, **__: None)
    result = reproduce("smoke", "--seeds", "3-4", "--patience", 9, "--device", "cpu", "--out", out)
    assert [(each.seed, each.settings) for each in asked] == [(1, {"epochs": 40, "milestones": [30]})]
    assert "They do not change tsne and parameter_space." in result.stderr


def test_a_bug_is_told_once_with_the_file_that_says_where_it_is(out, here, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.run.train", lambda *_, **__: 1 / 0)
    result = reproduce(*PART, *FAST, "--out", out, "--json")
    assert result.exit_code == 1
    files = [out / each.run_id / "error.txt" for each in part()]
    assert [each["problem"] for each in json.loads(result.stdout)] == [
        f"ZeroDivisionError: division by zero (traceback: {file})" for file in files
    ]
    assert all("Traceback" in file.read_text() for file in files)
    assert result.stderr.count("- ZeroDivisionError") == 1
    assert f"- ZeroDivisionError: division by zero (traceback: {files[0]})" in result.stderr


def test_a_full_disk_stops_the_grid_with_one_error(out, here, monkeypatch):
    written = []

    def full(file):
        written.append(file)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = reproduce(*PART, *FAST, "--out", out, "--quiet")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(written) == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: The disk is full ([Errno 28] No space left on device)")


# Killed

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes by /proc")


class Driver:
    """`tnlpad reproduce` as a process of its own."""

    def __init__(self, out, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tnlpad", "reproduce", *words, "--jobs", "2", "--device", "cpu", "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def workers(self):
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]

    def end(self, seconds=120):
        stdout, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stdout, stderr


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def finished(out):
    return {folder.path.name: folder.summary_file.stat().st_mtime_ns for folder in find_runs(out) if folder.finished}


def assert_whole(out, planned, epochs):
    """Every run is there once, complete, and no other."""
    assert {folder.path.name for folder in find_runs(out)} == {each.run_id for each in planned}
    for folder in find_runs(out):
        files = {path.name for path in folder.path.iterdir()}
        assert files <= {"config.json", "epochs.jsonl", "summary.json", "model.safetensors", "lock"}
        run, summary = [record["epoch"] for record in folder.epochs()], folder.summary()
        assert run == list(range(1, summary["epochs_run"] + 1))
        assert summary["epochs_run"] == epochs or summary["stopped"] == "by the method"  # SELF may end earlier


def test_a_killed_driver_is_started_again_and_nothing_is_lost(out):
    driver = Driver(out, *PART, "--set", "epochs=8")
    until(lambda: len(finished(out)) >= 2)
    driver.process.send_signal(signal.SIGKILL)
    driver.end()
    before = finished(out)
    assert 2 <= len(before) < 6
    code, stdout, stderr = Driver(out, *PART, "--set", "epochs=8").end()
    assert code == 0, stderr
    assert "6 of 6 runs are done" in stdout
    after = finished(out)
    assert {name: after[name] for name in before} == before  # none was made a second time
    assert_whole(out, part(epochs=8, batch_size=64), 8)


@pytest.mark.long
@needs_proc
def test_a_killed_worker_costs_nothing_but_time(out):
    driver = Driver(out, *PART, "--set", "epochs=12")
    until(lambda: any(folder.epochs() for folder in find_runs(out)))
    os.kill(driver.workers()[0], signal.SIGKILL)
    code, stdout, stderr = driver.end()
    assert code == 0, stderr
    assert "6 of 6 runs are done" in stdout
    assert_whole(out, part(epochs=12, batch_size=64), 12)


@pytest.mark.long
def test_two_drivers_share_the_work(out):
    drivers = [Driver(out, *PART, "--set", "epochs=8") for _ in range(2)]
    for code, stdout, stderr in [driver.end() for driver in drivers]:
        assert code == 0, stderr
        assert "6 of 6 runs are done" in stdout
    assert_whole(out, part(epochs=8, batch_size=64), 8)


@pytest.mark.long
def test_the_whole_of_smoke_killed_and_resumed(out):
    words = ["smoke", "--set", "epochs=22"]  # Co-teaching+ needs more than 20
    driver = Driver(out, *words)
    until(lambda: len(finished(out)) >= 10, seconds=200)
    driver.process.send_signal(signal.SIGKILL)
    driver.end()
    before = finished(out)
    assert len(before) < 52
    code, stdout, stderr = Driver(out, *words).end(seconds=600)
    assert code == 0, stderr
    assert "52 of 52 runs are done" in stdout
    after = finished(out)
    assert {name: after[name] for name in before} == before
    assert_whole(out, plan(experiments("smoke"), settings={"epochs": 22}), 22)
    others = {path.name for path in out.iterdir()} - after.keys()
    assert others == {"tsne", "tsne.json", "parameter_space.json"}


def left(*seconds, jobs=2, on_gpu=False):
    planned = SimpleNamespace(config=SimpleNamespace(patience=None, dataset="digits"))
    runs = [
        PlannedStatus(
            planned=planned, state="missing", seconds_left=each, known_from=None if each is None else "like runs"
        )
        for each in seconds
    ]
    return what_is_left(runs, SimpleNamespace(on_gpu=on_gpu, on_ray=False, jobs=jobs, at_once=None, out=Path("runs")))


def test_runs_at_once_take_as_long_as_the_longest_of_them():
    assert left(7200.0).startswith("1 run is left, about 2.0 CPU hours, 2.0 h with --jobs 2.")
    assert "3.0 h with --jobs 2" in left(3600.0, 10800.0)
    assert "2.0 h with --jobs 2" in left(3600.0, 3600.0, 3600.0, 3600.0)


def test_what_nobody_knows_is_said_to_be_unknown():
    assert left(None, None) == "2 runs are left; how long that takes is not known."
    assert left(None, 60.0).endswith("Estimated: 1 from similar runs in runs, 1 unknown.")
