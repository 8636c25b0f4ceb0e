"""Pages with numbers are generated: what is committed must be what the records give."""

import importlib.util
import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from benchmarks import step_times
from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import archive, write_archived
from tnlpad.report.remarks import outside, read_remarks
from tnlpad.report.results import TITLES, table_results
from tnlpad.report.table import markdown_row
from tnlpad.training.loop import out_of_patience

ROOT = Path(__file__).parents[1]


def test_the_performance_page_is_what_the_records_give():
    spec = importlib.util.spec_from_file_location("performance", ROOT / "docs" / "performance.py")
    performance = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(performance)
    for benchmark in ("optimizer_step", "loader"):
        devices = {record["device"] for record in performance.records(benchmark)}
        assert devices == {"cpu", "cuda"}, f"{benchmark} is measured on {devices}"
    assert "cuda" in {record["device"] for record in performance.records("methods")}
    assert performance.PAGE.read_text() == performance.page()


def docs_module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_methods_is_what_they_say_of_themselves():
    methods = docs_module("methods")
    assert methods.page() == methods.PAGE.read_text(), "python docs/methods.py writes it again"
    assert "| `lambda_u` | `25.0` | λ_u, weight of the unlabelled term |" in methods.page()
    assert "| `split_with` | `sigma` | `sigma`, `w`; weights that" in methods.page()
    assert "| `warmup_entropy` | `false` | penalise" in methods.page()
    assert "Options of `self+tnlpad`: those of `tnlpad` and `self`, and\n" in methods.page()
    assert methods.page().count("| `c1` |") == 1


def test_the_page_about_suspects_is_what_the_records_give():
    suspects = docs_module("suspects")
    assert suspects.page() == suspects.PAGE.read_text(), "python docs/suspects.py writes it again"


def test_where_others_find_more_wrong_labels_is_said():
    suspects = docs_module("suspects")

    def cell(noise, ours, aum):
        scores = {name: {"auroc": 0.8, "ap": 0.5} for name in suspects.COMPARED}
        scores |= {"ours": {"auroc": ours, "ap": 0.6}, suspects.AUM: {"auroc": aum, "ap": 0.7}}
        return {"dataset": "mnist", "noise": noise, "seed": 1, "samples": 9000, "scores": scores}

    cells = [cell("symmetric:0.2", 0.9, 0.95), cell("pairflip:0.2", 0.9, 0.85)]
    said = suspects.verdict(cells)
    assert "- Compared with cleanlab's better score: ahead or level in 2 of 2.\n" in said
    assert "- Compared with AUM: ahead or level in 1 of 2. Behind in MNIST symmetric 20\xa0% (by 0.0500).\n" in said
    row = suspects.comparison(cells).splitlines()[2]
    assert row == "| MNIST | symmetric 20\xa0% | 9,000 | 1 | 0.9000 (0.600) | 0.8000 (0.500) | **0.9500** (0.700) |" + (
        " 0.8000 (0.500) |" * 2
    )


def test_every_record_of_a_benchmark_is_shown_or_used(monkeypatch):
    read, read_text = set(), Path.read_text

    def remembered(path, *arguments, **options):
        read.add(path.name)
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", remembered)
    for name in ("performance", "methods", "suspects"):
        docs_module(name).page()
    docs_module("scaling").records()
    read |= {path.name for path in (*docs_module("own_data").RECORDS, docs_module("reliability").RECORD)}
    step_times.content()
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    cited = re.findall(r"benchmarks/records/([\w*.-]+\.json)", pages)
    records = {path.name for path in (ROOT / "benchmarks" / "records").iterdir()}
    assert len(records) > 30
    assert [name for name in sorted(records - read) if not any(fnmatch(name, each) for each in cited)] == []


@pytest.fixture
def results():
    return docs_module("results")


def test_the_results_are_what_the_records_give(results):
    files = dict(results.written())
    assert [path.name for path in files] == ["results.md", "README.md"]
    for path, text in files.items():
        assert path.read_text() == text, f"{path.name} is not what results/ gives: make results"


def test_results_without_records_say_how_to_make_them(results, tmp_path):
    for text in (results.page([]), results.readme_table([])):
        assert "No runs have been committed yet. `tnlpad reproduce simulated`" in text
    assert results.read_records(tmp_path / "nowhere") == []


def test_results_from_records(results, tmp_path):
    column = {cell.row: cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"}
    for row in ("standard", "tnlpad"):
        for seed in (1, 2):
            folder = write_run(tmp_path / "runs", column[row], seed, accuracy=0.98 + seed / 1000)
            (tmp_path / "kept").mkdir(exist_ok=True)
            write_archived(archive(folder), tmp_path / "kept")
    write_archived(archive(write_run(tmp_path, cells("smoke")[0], 1)), tmp_path / "kept")
    records = results.read_records(tmp_path / "kept")
    page = results.page(records)
    made = "Measured on a machine with tnlpad 0.1.0 (5 runs). 2 of the 536 published cells have runs, 0 of them with"
    assert made in page
    assert "- CIFAR-100, 8 columns: `tnlpad reproduce simulated --only cifar100`\n" in page
    assert "- MNIST, symmetric 40\xa0%: `tnlpad reproduce simulated --only mnist/symmetric-0.4`\n" in page
    assert "0 of 2 comparisons with a published number are" in page
    assert "| Test accuracy under simulated noise | 288 | 2 | 0 |" in page
    assert "\n## Test accuracy under simulated noise\n" in page
    assert "| TNLPAD | **98.15 ± 0.07** (epoch 4) |" in page
    assert "- Test accuracy under heavy noise, 54 cells: `tnlpad reproduce high_noise`" in page
    table = results.readme_table(records)
    (row,) = (line for line in table.splitlines() if line.startswith("| MNIST, symmetric 20\u00a0% |"))
    assert "98.15 ± 0.07 (2) ▼<br>98.95 ± 0.12 (5) |" in row.replace("**", "")
    assert row.endswith("| 0.00 ± 0.00 (2)<br>+0.07 |  |")
    assert "Measured on a machine with tnlpad 0.1.0 (4 runs)." in table
    assert "·" not in table
    assert table.count("\n| ") == 3
    text = results.readme("before\n<!-- results:begin -->\nold\n<!-- results:end -->\nafter", records)
    assert text == f"before\n<!-- results:begin -->\n{table}\n<!-- results:end -->\nafter"
    assert results.readme(text, records) == text


def test_runs_of_no_table_have_a_section_and_say_nothing_about_stopping(results, tmp_path):
    """A run of a few epochs chooses another epoch for another reason."""
    cell = next(cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2" and cell.row == "tnlpad")
    for seed, settings in ((1, {}), (2, {"epochs": 9})):
        write_archived(archive(write_run(tmp_path / "runs", cell, seed, settings=settings)), tmp_path)
    page = results.page(results.read_records(tmp_path))
    assert "\n## Other runs\n" in page
    assert "\n### MNIST, LeNet-5, epochs 9\n" in page
    assert "| MNIST | TNLPAD | 10 | 1 of 1 |" in page


def test_a_committed_record_that_is_damaged_is_an_error(results, tmp_path):
    (tmp_path / "damaged.json").write_text("{")
    with pytest.raises(SystemExit, match=r"damaged\.json"):
        results.read_records(tmp_path)


# Early stopping


def test_a_run_stops_some_epochs_after_its_first_best_one(results):
    course = [0.1, 0.5, 0.4, 0.5, 0.3, 0.6, 0.2]
    assert results.stopped(course, 1) == (2, 3)
    assert results.stopped(course, 3) == (2, 5)  # an equal accuracy is no better
    assert results.stopped(course, 4) == (6, 7)
    assert results.stopped([0.3], 1) == (1, 1)


def test_stopping_agrees_with_the_training_loop(results):
    course = [0.1, 0.5, 0.4, 0.5, 0.3, 0.6, 0.2]
    for patience in (1, 2, 3, 4, 10):
        history = []
        for epoch, accuracy in enumerate(course, start=1):
            history.append({"epoch": epoch, "validation_accuracy": accuracy})
            if out_of_patience(history, patience):
                break
        assert results.stopped(course, patience)[1] == len(history)


class Run:
    """The part of a record that is read."""

    def __init__(self, validation, test, patience=None):
        self.config = {"dataset": "mnist", "method": "tnlpad", "patience": patience}
        self.curves = self
        self.validation_accuracy, self.test_accuracy = validation, test


def test_the_effect_of_a_patience(results):
    late = Run([0.5, 0.4, 0.4, 0.6], [0.7, 0.6, 0.6, 0.8])
    early = Run([0.4, 0.5, 0.3, 0.3], [0.6, 0.7, 0.6, 0.6])
    effect = results.stopping([late, early], 2)
    assert (effect.runs, effect.same) == (2, 1)
    assert (effect.change, effect.saved) == (pytest.approx(-5), pytest.approx(1 / 8))


def test_runs_with_patience_are_left_out(results):
    full, short = Run([0.5, 0.4], [0.7, 0.6]), Run([0.4], [0.5], patience=1)
    table = results.patience_table([full, short])
    assert table.rows[0] == ["MNIST", "TNLPAD", "10", "1 of 1", "0.00", "0 %"]
    assert len(table.rows) == 3
    assert {len(row) for row in table.rows} == {len(table.headings)} == {len(table.align)}


def test_every_cell_outside_two_standard_errors_is_on_the_page(results):
    tables = [table_results(name, results.read_records(results.RECORDS)) for name in TITLES]
    found = outside((entry for table in tables for entry in table.entries), read_remarks(results.RECORDS))
    lines = results.PAGE.read_text().splitlines()
    assert found
    assert [each.place for each in found if markdown_row(each.cells) not in lines] == []


def test_a_remark_on_a_cell_that_is_inside_again_is_an_error(results, tmp_path):
    cell = next(cell for cell in cells("simulated") if cell.name == "simulated/mnist/symmetric-0.2/tnlpad")
    for seed in (1, 2):
        folder = write_run(tmp_path / "runs", cell, seed, accuracy=0.95 + seed / 1000)
        write_archived(archive(folder), tmp_path)
    remark = '["simulated/mnist/symmetric-0.2/tnlpad"]\ndate = 2026-01-31\ntext = "Why it is so."\n'
    (tmp_path / "remarks.toml").write_text(remark)
    assert "Why it is so. (2026-01-31)" in dict(results.written(tmp_path))[results.PAGE]
    (tmp_path / "remarks.toml").write_text(remark.replace("tnlpad", "standard"))
    with pytest.raises(SystemExit, match=r"symmetric-0\.2/standard"):
        list(results.written(tmp_path))


def test_numbers_about_suspects_name_the_version_that_measured_them():
    suspects = docs_module("suspects")
    record = json.loads((suspects.RECORDS / "features-cpu.json").read_text())
    record |= {"versions": {"tnlpad": "9.1"}, "earlier": {"tnlpad": "9.0"}}
    text = suspects.on_features(record)
    assert "(`python -m benchmarks.features`, tnlpad 9.1)" in text
    (line,) = (line for line in text.splitlines() if line.startswith("One command with the photographs"))
    assert line.endswith("tnlpad 9.0).")  # the times are of the earlier record
    sections = suspects.PAGE.read_text().split("\n## ")[1:]
    assert [each.splitlines()[0] for each in sections if not re.search(r"tnlpad \d", each)] == ["Single scores"]
