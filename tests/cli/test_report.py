import json
import subprocess
import sys

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from tests.edited_runs import reseal
from tests.synthetic_runs import write_run
from tnlpad.cli import app
from tnlpad.cli.report import datasets_table
from tnlpad.paper.cells import Experiment, cells
from tnlpad.records.archive import archive as archived
from tnlpad.records.store import RunFolder
from tnlpad.report.drawings.panels import Drawing
from tnlpad.runs.config import configure
from tnlpad.runs.recipes import DATASET_DEFAULTS

TNLPAD = next(cell for cell in cells("simulated") if cell.name == "simulated/mnist/symmetric-0.2/tnlpad")


@pytest.fixture(autouse=True)
def one_drawing(monkeypatch):
    """Replace the paper's figures, which take seconds."""
    texts = {"title": "A figure", "caption": "It.", "needs": "Nothing."}
    drawing = Drawing(**texts, collect=lambda records, extras: True, plot=lambda found: Figure((2, 1)))
    monkeypatch.setattr("tnlpad.report.write.DRAWINGS", {"drawn": drawing})


@pytest.fixture
def runs(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / "runs", TNLPAD, seed)
    return tmp_path / "runs"


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_results_to_stdout_and_files_to_the_folder(runs, tmp_path):
    out = tmp_path / "new" / "folder"
    result = run(runs, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"2 runs, 1 table, 1 of 1 figure\nReport: {out / 'index.html'}\n"
    assert result.stderr == "Reading records.\nDrawing figures and tables of 2 runs.\n"
    assert run(runs, "--out", out, "--quiet").stderr == ""
    assert (out / "tables" / "simulated.csv").exists()
    assert (out / "figures" / "drawn.pdf").exists()
    assert f"tnlpad report {runs} --out {out}" in (out / "index.html").read_text()


def test_runs_and_report_by_default(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<code>tnlpad report</code>" in page


def test_json_is_exactly_one_document(runs, tmp_path):
    out = tmp_path / "report"
    result = run(runs, "--out", out, "--json", "--quiet")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert document["runs"] == 2
    assert document["page"] == str(out / "index.html")
    assert set(document["files"]) == {str(path) for path in out.rglob("*") if path.is_file()}
    assert list(document["tables"]) == ["simulated"]
    (filled,) = [row for row in document["tables"]["simulated"] if row["n"]]
    assert (filled["cell"], filled["mean"], filled["last_mean"], filled["n"]) == ("mnist/symmetric-0.2", 90, 80, 2)
    assert document["figures"] == {"drawn": "drawn"}
    assert document["problems"] == []


def test_several_folders_and_one_table(runs, tmp_path):
    write_run(tmp_path / "more", TNLPAD, 3)
    result = run(runs, tmp_path / "more", "--out", tmp_path / "report", "--table", "simulated", "--json")
    document = json.loads(result.stdout)
    assert document["runs"] == 3
    assert sum(path.endswith("simulated.md") for path in document["files"]) == 1
    assert "more --out" in (tmp_path / "report" / "index.html").read_text()


def test_runs_in_none_of_the_papers_tables_get_files_of_their_own(runs, tmp_path):
    write_run(runs, Experiment(dataset="digits", noise="pairflip:0.3", method="tnlpad"), 1, accuracy=0.9)
    out = tmp_path / "report"
    result = run(runs, "--out", out)
    assert "1 of 1 figure; runs outside the paper's tables: tables/other\n" in result.stdout
    assert "| TNLPAD | 90.00 (epoch 4) | 80.00 | 30.00 | 1 |" in (out / "tables" / "other.md").read_text()
    assert (out / "tables" / "other.tex").exists()
    page = (out / "index.html").read_text()
    assert 'href="tables/other.csv"' in page
    assert "<summary>Digits, small CNN " in page
    (row,) = json.loads(run(runs, "--out", out, "--json").stdout)["other"]
    assert (row["noise"], row["mean"], row["n"]) == ("pairflip:0.3", 90, 1)
    result = run(runs, "--out", tmp_path / "one", "--table", "simulated")
    assert "tables/other" not in result.stdout + (tmp_path / "one" / "index.html").read_text()
    assert not (tmp_path / "one" / "tables" / "other.md").exists()


def test_cells_that_a_spreadsheet_takes_for_formulas_are_named_or_made_text(tmp_path):
    path = (
        tmp_path
        / "records"
        / write_run(tmp_path / "runs", Experiment(dataset="digits", noise="none", method="tnlpad"), 1).path.name
    )
    record = archived(RunFolder(tmp_path / "runs" / path.name))
    record["summary"]["config"]["noise"] = "=1+1"
    path.parent.mkdir()
    path.with_name(f"{path.name}.json").write_text(json.dumps(record))
    out = tmp_path / "report"
    table = out / "tables" / "other.csv"
    named = run(path.parent, "--out", out)
    assert named.exit_code == 0, named.output
    assert named.stderr.count(f"{out / 'tables'} has cells that a spreadsheet takes for formulas, such as '=1+1'") == 1
    assert "`tnlpad report --spreadsheet-safe`" in named.stderr
    assert ",=1+1," in table.read_text()
    safe = run(path.parent, "--out", out, "--spreadsheet-safe")
    assert "formulas" not in safe.stderr
    assert ",'=1+1," in table.read_text()


def test_torch_is_never_loaded(runs, tmp_path):
    words = ["report", str(runs), "--out", str(tmp_path / "report"), "--archive", str(tmp_path / "kept"), "--quiet"]
    code = (
        f"import sys; from tnlpad.cli import app; app({words}, standalone_mode=False)\n"
        "sys.exit(' '.join({'torch', 'sklearn', 'ray'} & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "report" / "index.html").exists()


def test_the_datasets_table_has_the_values_that_runs_use():
    table = datasets_table()
    found = dict(zip(DATASET_DEFAULTS, table.rows, strict=True))
    assert len(found) >= 9
    assert all(len(row) == len(table.headings) == len(table.align) for row in table.rows)
    for name, row in found.items():
        config = configure(name)
        assert row[-3:] == [str(config.batch_size), str(config.epochs), f"{config.options['c2']:g}"]
    assert found["mnist"][:6] == ["MNIST", "60,000", "10,000", "10", "28×28×1", "LeNet-5"]
    assert found["clothing1m"][4] == "of any size"


# Archiving


def test_archive_alone_writes_no_report(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(runs, "--archive", tmp_path / "kept")
    assert result.exit_code == 0
    assert result.stdout == f"Records: {tmp_path / 'kept'} (2 archived, 0 unchanged, 0 refused)\n"
    assert sorted(path.stem for path in (tmp_path / "kept").iterdir()) == sorted(path.name for path in runs.iterdir())
    assert not (tmp_path / "report").exists()
    assert "2 unchanged" in run(runs, "--archive", tmp_path / "kept").stdout


def test_an_archive_can_be_reported_on_and_archived(runs, tmp_path):
    kept = tmp_path / "kept"
    run(runs, "--archive", kept)
    document = json.loads(run(kept, "--out", tmp_path / "report", "--archive", kept, "--json").stdout)
    assert document["runs"] == 2
    assert document["archived"] == document["unchanged"] == document["refused"] == []


def test_another_result_is_refused_with_3_and_the_others_are_kept(runs, tmp_path):
    kept = tmp_path / "kept"
    run(runs, "--archive", kept)
    first, second = sorted(kept.iterdir())
    second.unlink()
    first.write_text(first.read_text().replace('"wrong_labels":0.4,', '"wrong_labels":0.5,'))
    before = first.read_bytes()
    result = run(runs, "--archive", kept, "--json")
    assert result.exit_code == 3
    assert "wrong_labels is 0.5 and 0.4" in result.stderr
    assert first.read_bytes() == before
    assert json.loads(result.stdout)["refused"] == [first.stem]
    assert second.exists()


# Bad input


def test_damaged_runs_are_named_and_the_others_reported(runs, tmp_path):
    first, _ = sorted(runs.iterdir())
    (first / "summary.json").write_text("{")
    RunFolder(runs / "begun").begin({"a": 1})
    result = run(runs, "--out", tmp_path / "report")
    assert result.exit_code == 0
    assert f"Left out: {first}: " in result.stderr
    assert "1 run is not finished yet." in result.stderr
    assert str(first) in (tmp_path / "report" / "index.html").read_text()


def test_damaged_curves_are_named_too(runs, tmp_path):
    first, second = sorted(runs.iterdir())
    for path in (first, second):
        (path / "epochs.jsonl").write_text("no JSON\n" * 6)
    reseal(first)
    result = run(runs, "--out", tmp_path / "report")
    assert result.exit_code == 0
    assert f"{first}: curves unreadable" in result.stderr
    assert f"Left out: {second}: " in result.stderr  # its checksum differs


def test_many_damaged_ones_are_counted(runs, tmp_path):
    for k in range(15):
        folder = RunFolder(runs / f"bad{k:02}")
        folder.begin({"a": k})
        folder.finish({"nothing": k})
    result = run(runs, "--out", tmp_path / "report")
    assert result.exit_code == 0
    assert "Left out: 5 more, which the page lists." in result.stderr
    assert (tmp_path / "report" / "index.html").read_text().count("/bad") == 15


@pytest.mark.parametrize("damage", ["nothing there", "empty", "all damaged"])
def test_no_finished_run_exits_with_3(runs, tmp_path, damage):
    source = tmp_path / "nowhere"
    if damage == "empty":
        source.mkdir()
    if damage == "all damaged":
        source = runs
        for path in runs.iterdir():
            (path / "summary.json").write_text("[]")
    result = run(source, "--out", tmp_path / "report", "--quiet")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert f"no finished runs in {source}" in result.stderr
    assert "tnlpad reproduce smoke" in result.stderr
    assert not (tmp_path / "report").exists()


def test_runs_on_own_data_alone_are_said_once(runs, tmp_path):
    for path in runs.iterdir():
        (path / "data.json").write_text("{}")
    result = run(runs, "--out", tmp_path / "report")
    assert result.exit_code == 3
    assert f"no finished run in {runs} is on a published dataset, and 2 are on your own data" in result.stderr
    assert "tnlpad suspects RUN" in result.stderr
    assert "not shown" not in result.stderr


def test_a_computed_figure_needs_no_runs(tmp_path):
    source = tmp_path / "computed"
    source.mkdir()
    (source / "parameter_space.json").write_text(json.dumps({"kind": "parameter_space"}))
    result = run(source, "--out", tmp_path / "report")
    assert result.exit_code == 0, result.output
    assert "0 runs, 0 tables, 1 of 1 figure" in result.stdout
    assert "A figure" in (tmp_path / "report" / "index.html").read_text()


def test_a_file_in_place_of_a_folder_exits_with_2(runs, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    for option in ("--out", "--archive"):
        result = run(runs, option, file)
        assert result.exit_code == 2
        assert "is a file" in result.stderr
        assert "Traceback" not in result.output
    assert file.read_text() == "kept"


def test_a_folder_that_cannot_be_written(runs, tmp_path):
    out = tmp_path / "report"
    out.mkdir()
    (out / "tables").write_text("in the way")
    result = run(runs, "--out", out)
    assert result.exit_code == 1
    assert f"cannot write into {out}" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "hint"), [("simulatd", "Did you mean simulated?"), ("xyz", "Tables: simulated, real_world")]
)
def test_a_table_of_another_name_is_2(runs, tmp_path, name, hint):
    result = run(runs, "--out", tmp_path / "report", "--table", name)
    assert result.exit_code == 2
    assert hint in result.stderr
    assert not (tmp_path / "report").exists()


def test_an_interrupt_is_130(runs, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tnlpad.report.write.write_report", interrupted)
    result = run(runs, "--out", tmp_path / "report")
    assert result.exit_code == 130
    assert list((tmp_path / "report").iterdir()) == []


def test_a_run_with_labels_from_a_file_is_not_archived(tmp_path):
    folder = write_run(tmp_path / "runs", Experiment(dataset="digits", noise="none", method="cdr"), 1)
    summary = folder.summary()
    summary["config"]["noise_file_sha256"] = "ab"
    folder.summary_file.write_text(json.dumps(summary))
    folder.config_file.write_text(json.dumps(summary["config"]))
    result = run(tmp_path / "runs", "--archive", tmp_path / "kept")
    assert result.exit_code == 3
    assert "are not archived" in result.stderr
    assert list((tmp_path / "kept").iterdir()) == []
