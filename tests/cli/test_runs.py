import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tnlpad
from tests.cli.trained import asked, own_data, trained
from tests.edited_runs import reseal
from tests.records.test_store import shut_off
from tests.time_limit import time_limit
from tnlpad.data.own import DataShape
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run on own data, and others in every state."""
    folder = tmp_path_factory.mktemp("all")
    data = own_data(folder, "features")
    done = trained(data, folder / "runs", 2)
    config = json.loads((done / "config.json").read_text())
    for name in ("stopped", "broken"):
        run = RunFolder(folder / "runs" / name)
        run.begin(config)
        run.append_epoch({"epoch": 1})
        os.utime(run.config_file, (0, 0))
        os.utime(run.epochs_file, (0, 0))
    run.keep_error("Traceback")
    for name, content in (("half", b"{"), ("empty", b"{}")):
        (folder / "runs" / name).mkdir()
        (folder / "runs" / name / "config.json").write_bytes(content)
    return folder / "runs", done


def test_every_run_is_listed_with_its_state(runs):
    folder, done = runs
    with RunFolder(folder / "stopped").lock():
        listed = {each["name"]: each for each in json.loads(asked("runs", folder, "--json").stdout)}
    assert {name: each["state"] for name, each in listed.items()} == {
        done.name: "finished",
        "stopped": "running",
        "broken": "failed",
        "half": "damaged",
        "empty": "damaged",
    }
    found, summary = listed[done.name], json.loads((done / "summary.json").read_text())
    assert found["validation_accuracy"] == summary["chosen"]["validation_accuracy"]
    assert found["test_accuracy"] == summary["chosen"]["test_accuracy"]
    assert (found["method"], found["network"], found["epochs_run"]) == ("tnlpad", "head", 2)
    assert found["data"].endswith("data.csv")
    assert "config.json is damaged" in listed["half"]["problem"]
    assert listed["broken"]["epochs_run"] == 1


def test_the_newest_comes_first_and_damaged_ones_are_named(runs):
    folder, done = runs
    result = asked("runs", folder)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if "│" in line]
    assert done.name in lines[0] or "damaged" in lines[0]
    assert "stopped" in lines[-1] or "broken" in lines[-1]
    assert any("interrupted, epoch 1 of 2" in line for line in lines)
    assert "half: " in result.stderr
    names = [each["name"] for each in json.loads(asked("runs", folder, "--json").stdout)]
    assert names.index(done.name) < names.index("stopped")


def test_suspects_are_counted_and_a_caution_is_no_number(runs, tmp_path):
    _, done = runs
    for name, confidences in {"two": (0.9, 0.5, 0.4), "none": (), "caution": (0.4, 0.3)}.items():
        run = tmp_path / name
        (run / "suspects").mkdir(parents=True)
        for file in ("config.json", "summary.json", "data.json"):
            (run / file).write_bytes((done / file).read_bytes())
        reseal(run)
        rows = [f"{row},{value}" for row, value in enumerate(confidences)]
        (run / "suspects" / "suspects.csv").write_text("\n".join(["id,confidence", *rows]) + "\n")
    found = {each["name"]: each["suspects"] for each in json.loads(asked("runs", tmp_path, "--json").stdout)}
    assert found == {"two": 2, "none": 0, "caution": None}


def test_a_pipe_in_the_place_of_a_list_is_not_waited_for(runs, tmp_path):
    _, done = runs
    shutil.copytree(done, tmp_path / "run", ignore=shutil.ignore_patterns("suspects"))
    (tmp_path / "run" / "suspects").mkdir()
    os.mkfifo(tmp_path / "run" / "suspects" / "suspects.csv")
    with time_limit(10):
        (found,) = json.loads(asked("runs", tmp_path, "--json").stdout)
    assert found["suspects"] is None


def test_no_runs_and_no_folder(tmp_path):
    assert asked("runs", tmp_path).exit_code == 0
    assert json.loads(asked("runs", tmp_path, "--json").stdout) == []
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        result = asked("runs", tmp_path / name)
        assert result.exit_code == 3
        assert str(tmp_path / name) in result.stderr


def test_listing_needs_no_torch(runs):
    check = "import sys; from tnlpad.cli import app; app(standalone_mode=False); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", check, "runs", str(runs[0])]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def begun(folder, config, data=None, **read):
    """Begin a run on a published dataset, or on data that were read from a path."""
    run = RunFolder(folder / (config.run_id if data is None else config.named(data.stem)))
    run.begin(config.to_json())
    if data is not None:
        about = {"path": str(data), "fingerprint": "", "class_names": [], "kind": "features"}
        about |= {"normalisation": {"mean": [0.0], "std": [1.0]}}
        (run.path / "data.json").write_text(json.dumps(about | read))
    return run.path.name


def table(content, samples=100):
    counts = {"samples": samples, "validation": 0, "test": 0, "classes": 2, "channels": 3, "height": 0, "width": 0}
    return DataShape(kind="features", fingerprint=content * 16, **counts)


def told_apart(folder):
    return {each["name"]: each["differs"] for each in json.loads(asked("runs", folder, "--json").stdout)}


def test_runs_on_files_of_the_same_name_are_told_apart(tmp_path):
    one, other, third = (Path("/home/me", *words, "data.csv") for words in (["a", "x"], ["b", "x"], ["c"]))
    names = [
        begun(tmp_path, configure(table("1111")), one),
        begun(tmp_path, configure(table("2222", 90)), other),
        begun(tmp_path, configure(table("2222", 90), settings={"epochs": 7, "milestones": "5"}), other),
        begun(tmp_path, configure(table("3333")), third),
        begun(tmp_path, configure(table("4444")), Path("/home/me/c/other.csv")),
    ]
    assert told_apart(tmp_path) == {
        names[0]: {"data": "a/x/data.csv"},
        names[1]: {"data": "b/x/data.csv"},
        names[2]: {"data": "b/x/data.csv", "epochs": "7"},
        names[3]: {"data": "me/c/data.csv"},
        names[4]: {},
    }


def test_settings_columns_and_content_tell_runs_apart(tmp_path):
    for settings in ({}, {"c2": 0.7}, {"cutout": 2}, {"epochs": 3, "milestones": "1,2"}, {"epochs": 4, "c2": 0.7}):
        begun(tmp_path / "settings", configure("digits", settings=settings))
    begun(tmp_path / "settings", configure("digits", seed=2, settings={"c2": 0.25}))
    shown = sorted(map(str, told_apart(tmp_path / "settings").values()))
    wanted = ({}, {"c2": "0.7"}, {"cutout": "2"}, {"epochs": "3"}, {"epochs": "4", "c2": "0.7"}, {})
    assert shown == sorted(map(str, wanted))
    path = Path("/x/data.csv")
    for content, columns in (("1111", {}), ("2222", {"label_column": "kind"})):
        begun(tmp_path / "columns", configure(table(content)), path, **columns)
    assert sorted(told_apart(tmp_path / "columns").values(), key=str) == [{"label": "kind"}, {"label": "none"}]
    for content, samples in (("1111", 100), ("2222", 100), ("3333", 90)):
        begun(tmp_path / "content", configure(table(content, samples)), path)
    found = told_apart(tmp_path / "content").values()
    assert sorted(each["content"] for each in found) == ["own-1111111111", "own-2222222222", "own-3333333333"]
    assert sorted(each.get("samples", "") for each in found) == ["", "", "90"]


def test_what_tells_runs_apart_is_below_their_names(tmp_path):
    for folder in ("a", "b\n"):
        begun(tmp_path, configure(table(folder[0] * 4)), Path("/x", folder, "data.csv"))
    lines = asked("runs", tmp_path).stdout.splitlines()
    assert {line.split("│")[1].strip() for line in lines if "data=" in line} == {
        "data=a/data.csv",
        "data=b\\n/data.csv",
    }


def test_a_run_that_hides_its_files_hides_no_others(runs, tmp_path, monkeypatch):
    _, done = runs
    hidden = shutil.copytree(done, tmp_path / "hidden_0123456789")
    shutil.copytree(done, tmp_path / done.name)
    shut_off(monkeypatch, hidden)
    result = asked("runs", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    found = {each["name"]: each for each in json.loads(result.stdout)}
    assert found[done.name]["state"] == "finished"
    assert "cannot be read (Permission denied). Check its permissions." in found[hidden.name]["problem"]
    for run in (hidden, "hidden"):
        result = asked("suspects", run, "--runs", tmp_path)
        assert (result.exit_code, "cannot be read (Permission denied)" in result.stderr) == (3, True)
    with pytest.raises(tnlpad.DataError, match="Check its permissions"):
        tnlpad.load(hidden)
    shut_off(monkeypatch, tmp_path.parent)
    result = asked("runs", tmp_path)
    assert (result.exit_code, "Traceback" in result.output) == (3, False)
