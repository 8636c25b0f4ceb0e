import contextlib
import dataclasses
import json
import re
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tnlpad.cli import app
from tnlpad.cli.tune import _print_curve
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure, with_settings
from tnlpad.runs.tune import Tried, document

SMALL = ["digits", "--noise", "symmetric:0.4", "--set", "epochs=1", "--set", "batch_size=256", "--device", "cpu"]
HERE = ["--jobs", "1"]  # in this process
COLUMNS = ["--label", "kind", "--ignore", "number"]


def write_table(path):
    rows = [f"{n % 7},{n % 3},{'ab'[n % 2]},{n}" for n in range(60)]
    path.write_text("\n".join(["width,height,kind,number", *rows]) + "\n")


def tune(*arguments, **options):
    return CliRunner(**options).invoke(app, ["tune", *map(str, arguments)])


def test_the_curve_and_its_winner(tmp_path):
    result = tune(
        *SMALL, *HERE, "--field", "learning_rate", "--values", "0.05,1e-6", "--seeds", "1-2", "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    assert "±" in result.stdout
    assert "0.05 *" in result.stdout
    assert "chosen: --set learning_rate=0.05" in result.stdout
    assert "4 of 4 runs" in result.stderr
    assert not re.search(r"test, %|test accuracy", result.output)
    assert len(list(tmp_path.iterdir())) == 4


def test_json_is_exactly_one_document(tmp_path):
    result = tune(*SMALL, *HERE, "--values", "0.5,1", "--seeds", "1", "--out", tmp_path, "--json", "-q")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [each["value"] for each in document["tried"]] == [0.5, 1.0]
    assert "test" not in result.stdout
    assert result.stderr == ""


def test_the_run_of_another_process_is_waited_for_and_named(tmp_path, monkeypatch):
    options = {"noise": "symmetric:0.4", "settings": {"epochs": 1, "batch_size": 256, "c2": 0.5}}
    run = RunFolder(tmp_path / configure("digits", **options).run_id)
    held = contextlib.ExitStack()
    held.enter_context(run.lock())
    monkeypatch.setattr("tnlpad.grid.grid.time", SimpleNamespace(sleep=lambda _: held.close(), perf_counter=lambda: 0))
    result = tune(*SMALL, *HERE, "--values", "0.5", "--seeds", "1", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Waiting for 1 run of another process.") == 1


def test_the_labels_that_chose_are_named(capsys):
    tried = [
        Tried(value=1.0, accuracies=(0.5,), run_ids=("one",)),
        Tried(value=2.0, accuracies=(0.6,), run_ids=("two",)),
    ]
    _print_curve(tried, "c2", "clean")
    assert "Clean validation accuracy" in capsys.readouterr().out
    assert document(tried, "c2", "clean")["selection"].startswith("highest mean clean validation accuracy")


@pytest.mark.parametrize(
    ("field", "value"), [("patience", None), ("milestones", (40, 80)), ("flip", True), ("c2", 0.3)]
)
def test_the_chosen_value_is_written_as_set_takes_it(capsys, field, value):
    _print_curve([Tried(value=value, accuracies=(0.5,), run_ids=("one",))], field, "noisy")
    (written,) = re.findall(rf"--set {field}=(\S+)\. ", capsys.readouterr().out)
    config = with_settings(configure("digits"), {field: written})
    assert (config.options | dataclasses.asdict(config))[field] == value


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--values", "1", "--field", "c9"], "did you mean c2"),
        (["--values", "strong"], "must be a number"),
        (["--values", ","], "values are missing"),
        (["--values", "1", "--seeds", "3-1"], "seeds are missing"),
        (["--values", "1", "--seeds", "x"], "write 1-3"),
        (["--values", "1,1"], "given twice"),
        (["--values", "1", "--method", "tnlpat"], "did you mean tnlpad?"),
        (["--values", "1", "--address", "here:6379"], "--address needs --executor ray"),
        (["--values", "1", "--jobs", "0"], "--jobs"),
        ([], "--values"),
    ],
)
def test_wrong_usage_is_2(tmp_path, arguments, said):
    result = tune(*SMALL, *arguments, "--out", tmp_path)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_bad_data_is_3(tmp_path):
    result = tune("mnist", "--values", "1", "--root", tmp_path / "nothing", "--out", tmp_path / "runs")
    assert result.exit_code == 3
    assert "Traceback" not in result.output


def test_a_diverged_run_is_1(tmp_path):
    result = tune(*SMALL, *HERE, "--field", "learning_rate", "--values", "1e12", "--seeds", "1", "--out", tmp_path)
    assert result.exit_code == 1
    assert "Leave that value out" in result.stderr


def test_an_interrupt_is_130(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("tnlpad.grid.grid.run_grid", interrupted)
    result = tune(*SMALL, "--values", "1", "--out", tmp_path)
    assert result.exit_code == 130


def test_runs_in_parallel_give_the_same_numbers(tmp_path):
    words = ["--values", "0.5,1", "--seeds", "1-2", "--json", "-q"]
    one, two = (tune(*SMALL, *words, "--jobs", jobs, "--out", tmp_path / str(jobs)) for jobs in (1, 2))
    assert (one.exit_code, two.exit_code) == (0, 0), one.output + two.output
    assert one.stdout == two.stdout


@pytest.mark.long
def test_own_data_are_opened_by_each_worker(tmp_path):
    """From a relative path, with columns that must be named."""
    write_table(tmp_path / "table.csv")
    words = ["table.csv", *COLUMNS, "--field", "epochs", "--values", "1,2", "--seeds", "1", "--device", "cpu"]
    with contextlib.chdir(tmp_path):
        one, two = (tune(*words, "--json", "-q", "--jobs", jobs, "--out", f"runs{jobs}") for jobs in (1, 2))
    assert (one.exit_code, two.exit_code) == (0, 0), one.output + two.output
    assert one.stdout == two.stdout
    (run, *_) = (tmp_path / "runs2").glob("*_tnlpad_*")
    assert (run / "scores.parquet").exists()  # as `tnlpad train` leaves it


def test_a_damaged_run_is_3(tmp_path):
    words = [*SMALL, *HERE, "--values", "1", "--seeds", "1", "--out", tmp_path]
    assert tune(*words).exit_code == 0
    (folder,) = tmp_path.iterdir()
    (folder / "summary.json").write_text("{")
    result = tune(*words)
    assert result.exit_code == 3
    assert f"{folder / 'summary.json'} is damaged" in result.stderr


def test_the_help_fits_80_columns():
    result = tune("--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
