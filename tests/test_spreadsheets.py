"""Names that a spreadsheet takes for formulas, from the data to every table for people."""

import csv

import numpy as np
import pytest

from tests.cli.trained import asked
from tnlpad.spreadsheets import Formulas, is_formula

EVIL = '=HYPERLINK("http://127.0.0.1","x")'


@pytest.mark.parametrize("cell", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\r=1", "-1+2", "+1 2", "--1"])
def test_formulas(cell):
    assert is_formula(cell)
    assert list(Formulas(safe=True).passed([[1, cell]])) == [[1, f"'{cell}"]]


@pytest.mark.parametrize("cell", ["-1", "+2.5", "-.5e-3", "-1.", "1=2", "x@y", "", None, -1, 'a "b"'])
def test_no_formulas(cell):
    formulas = Formulas(safe=True)
    assert list(formulas.passed([[cell]])) == [[cell]]
    assert formulas.first is None


def cells(path):
    with open(path, newline="") as file:
        return {cell for row in csv.reader(file) for cell in row}


def test_every_table_for_people_names_them_and_can_make_them_text(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.array([EVIL, "@b"] * 15)
    features = generator.normal(size=(30, 2)) + (labels == "@b")[:, None] * 9
    labels[::6] = "@b"
    np.savez(tmp_path / "data.npz", features=features, labels=labels, ids=[f"-s{place}" for place in range(30)])
    result = asked("train", tmp_path / "data.npz", "--set", "epochs=1", "--out", tmp_path / "runs")
    assert "`tnlpad suspects --spreadsheet-safe`" in result.stderr
    run = str(next((tmp_path / "runs").iterdir()))
    written = {
        tmp_path / "list" / "suspects.csv": ["suspects", run, "--out", tmp_path / "list", "--top", "30"],
        tmp_path / "predicted.csv": ["predict", run, tmp_path / "data.npz", "--out", tmp_path / "predicted.csv"],
        tmp_path / "clean.npz.changes.csv": ["clean", run, "--out", tmp_path / "clean.npz", "--top", "5"],
        tmp_path / "audit" / "audit.csv": ["audit", run, "--out", tmp_path / "audit", "--sample", "20"],
    }
    for path, words in written.items():
        plain = asked(*words)
        assert plain.stderr.count("takes for formulas") == 1, words[0]
        assert f"{path} has cells" in plain.stderr
        assert any(is_formula(cell) for cell in cells(path))
        before = cells(path)
        safe = asked(*words, "--spreadsheet-safe")
        assert "formulas" not in safe.stderr
        assert cells(path) == {f"'{cell}" if is_formula(cell) else cell for cell in before}
