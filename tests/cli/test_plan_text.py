import shlex

from typer.testing import CliRunner

from tests.synthetic_runs import write_run
from tnlpad.cli import app
from tnlpad.grid.reproduce import experiments, select
from tnlpad.records.archive import archive, write_archived

PHOTOGRAPHS = ("real_world", "--only", "food101")


def start(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_for_the_report_also_reads_the_records_that_were_there(tmp_path):
    """No run is left, so the folder of runs alone has nothing to report."""
    out, kept = tmp_path / "runs", tmp_path / "kept"
    kept.mkdir()
    (cell,) = select(experiments("smoke"), only=["digits/symmetric-0.4"], methods=["cdr"])
    write_archived(archive(write_run(tmp_path / "elsewhere", cell, 1, settings=cell.settings)), kept)
    part = ["smoke", "--only", "digits/symmetric-0.4", "--methods", "cdr", "--seeds", 1, "--device", "cpu"]
    first, second = start("reproduce", *part, "--have", kept, "--out", out).splitlines()
    assert first == f"1 of 1 run is done. Records: {out}, {kept}"
    command = shlex.split(second.removeprefix("Tables and figures: "))[1:-1]
    assert "1 run, 1 table" in start(*command, tmp_path / "report")


def test_what_needs_no_runs_is_shown_beside_finished_ones(tmp_path):
    """A report of an empty folder would be an error."""
    out = tmp_path / "runs"
    assert f"shows it once {out} has a finished run." in start("reproduce", "datasets", "--out", out)
    (cell,) = select(experiments("smoke"), only=["digits/symmetric-0.4"], methods=["cdr"])
    write_run(out, cell, 1, settings=cell.settings)
    start("report", out, "--out", tmp_path / "report")
    assert (tmp_path / "report" / "tables" / "datasets.tex").is_file()


def test_the_time_on_a_gpu_says_how_many_cores_decode_photographs():
    plans = [start("reproduce", *target, "--dry-run", "--device", "cpu") for target in (["networks"], PHOTOGRAPHS)]
    on_a_gpu = [text[text.index("With --device cuda") :] for text in plans]
    assert ["Photographs are decoded by" in " ".join(text.split()) for text in on_a_gpu] == [False, True]
