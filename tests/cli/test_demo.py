import functools
import json

import pytest
from typer.testing import CliRunner

import tnlpad.grid.demo as experiment
from tnlpad.cli import app

SMALL = functools.partial(experiment.DemoConfig, epochs=2, train_size=128, validation_size=64, c2_candidates=(0.5, 1.0))


@pytest.fixture
def run(monkeypatch):
    """The command on a task of a second, in one process."""
    monkeypatch.setattr(experiment, "DemoConfig", SMALL)
    monkeypatch.setattr("tnlpad.runs.devices.available_cores", lambda: 1)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["demo", *map(str, arguments)])

    return invoke


def test_results_to_stdout_progress_to_stderr_files_to_the_folder(run, tmp_path):
    folder = tmp_path / "new" / "folder"
    result = run("--out", folder, "--seeds", 2)
    assert result.exit_code == 0, result.output
    for wanted in ("TNLPAD, σ", "Plain SGD", "±", "c2 = "):
        assert wanted in result.stdout
    assert str(folder / "report.html") in result.stdout
    assert "Training" in result.stderr
    assert "Training" not in result.stdout
    assert {path.name for path in folder.iterdir()} == {"demo.json", "report.html"}
    document = json.loads((folder / "demo.json").read_text())
    assert document["configuration"]["seeds"] == [1, 2]
    assert document["command"] == f"tnlpad demo --out {folder} --seeds 2"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_json_is_exactly_one_document(run, tmp_path):
    result = run("--out", tmp_path, "--seeds", 1, "--json", "--quiet")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads((tmp_path / "demo.json").read_text())
    assert result.stderr == ""


def test_tuning(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.grid.demo.TUNE_LEARNING_RATES", (0.01,))
    result = run("--out", tmp_path, "--seeds", 1, "--tune")
    assert result.exit_code == 0
    assert "chosen" in result.stdout
    assert len(json.loads((tmp_path / "tuning.json").read_text())["cells"]) == 3


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--seeds", "many"], ["--sedes", "3"], ["unexpected"]])
def test_wrong_usage_is_2(run, arguments, tmp_path):
    result = run("--out", tmp_path, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_file_is_no_folder(run, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    result = run("--out", file)
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    assert "Traceback" not in result.output
    assert file.read_text() == "kept"


def test_a_folder_that_cannot_be_made_fails_before_training(run, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "run_demo", lambda *_, **__: pytest.fail("trained"))
    (tmp_path / "file").write_text("")
    result = run("--out", tmp_path / "file" / "folder")
    assert result.exit_code == 1
    assert "cannot write into" in result.stderr
    assert "--out FOLDER" in result.stderr
    assert "Traceback" not in result.output


def test_an_interrupt_is_130_and_leaves_no_file(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_demo", interrupted)
    result = run("--out", tmp_path)
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []
