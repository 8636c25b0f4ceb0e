import json

import pytest
from typer.testing import CliRunner

from tnlpad.cli import app
from tnlpad.grid import demo


@pytest.fixture
def run(monkeypatch):
    """The command with runs of two epochs, in one process."""
    monkeypatch.setattr(demo, "SETTINGS", {name: {**own, "epochs": 2} for name, own in demo.SETTINGS.items()})
    monkeypatch.setattr("tnlpad.runs.devices.available_cores", lambda: 1)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["demo", *map(str, arguments)])

    return invoke


def test_results_to_stdout_progress_to_stderr_files_to_the_folder(run, tmp_path):
    folder = tmp_path / "new" / "folder"
    result = run("--out", folder, "--seeds", 2)
    assert result.exit_code == 0, result.output
    for wanted in ("TNLPAD, σ", "Plain SGD", "±"):
        assert wanted in result.stdout
    assert str(folder / "report.html") in result.stdout
    assert "4 of 4 runs" in result.stderr
    assert "4 runs" not in result.stdout
    assert {path.name for path in folder.iterdir()} == {"demo.json", "report.html", "runs"}
    document = json.loads((folder / "demo.json").read_text())
    assert document["configuration"]["seeds"] == [1, 2]
    assert document["command"] == f"tnlpad demo --out {folder} --seeds 2"
    assert {path.name for path in (folder / "runs").iterdir()} == document["runs"].keys()
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_json_is_exactly_one_document(run, tmp_path):
    result = run("--out", tmp_path, "--seeds", 1, "--json", "--quiet")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads((tmp_path / "demo.json").read_text())
    assert result.stderr == ""


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
    monkeypatch.setattr(demo, "run_demo", lambda *_, **__: pytest.fail("trained"))
    (tmp_path / "file").write_text("")
    result = run("--out", tmp_path / "file" / "folder")
    assert result.exit_code == 1
    assert "--out" in result.stderr
    assert "Traceback" not in result.output


def test_a_run_that_fails_is_1(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.run.train", lambda *_, **__: 1 / 0)
    result = run("--out", tmp_path, "--seeds", 1)
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr
    assert "Traceback (most recent" not in result.output
    assert not (tmp_path / "report.html").exists()


def test_an_interrupt_is_130_and_leaves_no_report(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run_demo", interrupted)
    result = run("--out", tmp_path)
    assert result.exit_code == 130
    assert "Finished runs are kept" in result.stderr
    assert list(tmp_path.iterdir()) == []
