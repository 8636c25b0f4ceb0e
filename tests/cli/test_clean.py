import csv
import json

import pytest
from typer.testing import CliRunner

from tests.suspects.made import made_run
from tnlpad.cli import app

runner = CliRunner()


def asked(*words):
    return runner.invoke(app, ["clean", *map(str, words)])


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "run")
    return tmp_path / "run"


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labels_are_corrected_and_the_original_kept(run, tmp_path):
    out = tmp_path / "new" / "manifest.csv"
    result = asked(run, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    counts, table = json.loads(result.stdout), rows(out)
    changed = [row for row in table if row["changed"] == "yes"]
    assert counts == {
        "file": str(out),
        "samples": 600,
        "kept": 600,
        "corrected": len(changed),
        "dropped": 0,
    }
    assert changed
    assert all(row["label"] != row["original_label"] for row in changed)


def test_labels_are_dropped(run, tmp_path):
    out = tmp_path / "manifest.csv"
    assert "samples kept" in asked(run, "--out", out, "--action", "drop").stdout
    assert 0 < len(rows(out)) < 600


@pytest.mark.parametrize("words", [["--out", "folder"], ["--out", "m.csv", "--confidence", "0.2"], []])
def test_wrong_words_are_usage_errors(run, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asked(run, *words).exit_code == 2
    assert not (tmp_path / "m.csv").exists()
