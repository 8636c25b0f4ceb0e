"""The files of a report and the content of its page."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.edited_runs import edit, reseal
from tests.report.test_page import read
from tests.synthetic_runs import write_run
from tnlpad.cli.report import datasets_table
from tnlpad.paper.cells import Experiment, cells
from tnlpad.records.archive import Problem, archive, finished_records, write_archived
from tnlpad.records.store import RunFolder
from tnlpad.report.drawings import DRAWINGS
from tnlpad.report.write import write_report
from tnlpad.runs.config import configure
from tnlpad.runs.run import run

pytestmark = pytest.mark.usefixtures("two_drawings")
COLUMN = [cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"]
ROWS = {cell.row: cell for cell in COLUMN}
COMMANDS = "tnlpad reproduce simulated --only mnist/symmetric-0.2 --methods"


@pytest.fixture
def runs(tmp_path):
    """One column of a table without one method, three seeds each; and two runs that are in no table."""
    folder = tmp_path / "runs"
    for cell in COLUMN:
        for seed in (1, 2, 3):
            if cell.row != "cdr":
                write_run(folder, cell, seed, accuracy=cell.published.mean / 100 + 0.0003 * seed, last=0.7)
    for seed in (1, 2):
        write_run(folder, Experiment(dataset="digits", noise="pairflip:0.3", method="cdr"), seed)
    return folder


def report(out, *sources, **options):
    out.mkdir(exist_ok=True)
    problems: list[Problem] = []
    return write_report(out, finished_records(sources, problems.append), problems, **options)


def text_of(page):
    return re.sub(r"[\s\u00a0]+", " ", " ".join(read(page.read_text()).text))


def shape(value):
    """Return names and types, for comparison of documents."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


@pytest.mark.parametrize("method", ["tnlpad", "coteaching"])
def test_the_runs_of_these_tests_look_like_real_ones(tmp_path, method):
    experiment = Experiment(dataset="digits", noise="symmetric:0.4", method=method)
    settings = {"epochs": 2}
    real = run(configure("digits", noise="symmetric:0.4", method=method, settings=settings), tmp_path / "real")
    made_up = write_run(tmp_path / "made_up", experiment, 1, epochs=2, settings=settings)
    assert shape(made_up.summary()) == shape(real.summary())
    assert shape(made_up.config()) == shape(real.config())
    assert set(shape(made_up.epochs()[0])) == set(shape(real.epochs()[0]))
    for key in ("judged", "norms", "selection"):
        assert shape(made_up.epochs()[0])[key] == shape(real.epochs()[0])[key]


def test_the_files(runs, tmp_path):
    out = tmp_path / "report"
    written = report(out, runs)
    names = {str(path.relative_to(out)) for path in written.files}
    assert names == {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {"index.html", "tables/simulated.md", "tables/simulated.csv", "tables/simulated.tex"} <= names
    assert {"figures/drawn.svg", "figures/drawn.pdf"} <= names
    assert [(figure.name, figure.svg is None) for figure in written.contents.figures] == [
        ("drawn", False),
        ("lacking", True),
    ]


def test_other_files_in_the_folder_are_kept(runs, tmp_path):
    out = tmp_path / "report"
    (out / "tables").mkdir(parents=True)
    (out / "mine.txt").write_text("kept")
    (out / "tables" / "mine.csv").write_text("kept")
    report(out, runs)
    assert (out / "mine.txt").read_text() == (out / "tables" / "mine.csv").read_text() == "kept"


def test_the_same_records_give_the_same_page_wherever_they_lie(runs, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    for path in runs.iterdir():
        write_archived(archive(RunFolder(path)), results)
    one, two = (report(tmp_path / name, source) for name, source in (("one", runs), ("two", results)))
    assert one.page.read_bytes() == two.page.read_bytes()


# What the page says


def test_numbers_beside_the_papers(runs, tmp_path):
    text = text_of(report(tmp_path / "report", runs).page)
    for wanted in (
        "26 finished runs, grouped",
        "8 of 8 comparisons with a published number are within two standard errors.",
        "TNLPAD 99.08 ± 0.03 epoch 4 70.00 ± 0.00 30.00 ± 0.00 3 of 5 99.02 ± 0.07 n 5 +0.06 yes: 0.06 ≤ 0.07",
        "Epoch chosen by: first epoch of the highest noisy validation accuracy",
        "a machine",
        "python 3.11.0, torch 2.6.0, numpy 2.0.0",
        "Other runs",
        "pairflip 30 % method chosen epoch last epoch wrong labels memorised n CDR 90.00 ± 0.00 epoch 4 80.00 ± 0.00",
    ):
        assert wanted in text, wanted


def test_n_of_a_paired_difference_does_not_stand_by_the_papers(runs, tmp_path):
    html = report(tmp_path / "report", runs).page.read_text()
    assert "<small>+0.07<br>n 3</small>" in html


def test_facts_that_differ_come_with_counts(runs, tmp_path):
    path = sorted(runs.glob("*/summary.json"))[0]
    edit(path, lambda summary: summary.update(machine="another machine"))
    text = text_of(report(tmp_path / "report", runs).page)
    assert "a machine (25 runs)" in text
    assert "another machine (1 run)" in text


def test_missing_results_come_with_their_command(runs, tmp_path):
    written = report(tmp_path / "report", runs)
    text = text_of(written.page)
    assert f"{COMMANDS} cdr" in text
    assert "CIFAR-100, 8 columns: tnlpad reproduce simulated --only cifar100 " in text
    assert "tnlpad reproduce high_noise" in text
    missing = [figure for figure in written.contents.figures if not figure.svg]
    assert missing
    for figure in missing:
        assert f"Not drawn yet. Needs: {figure.drawing.needs} {figure.command}" in text


def test_variants_are_labelled(runs, tmp_path):
    write_run(runs, ROWS["tnlpad"], 1, accuracy=0.5, last=0.4, settings={"patience": 5})
    text = text_of(report(tmp_path / "report", runs).page)
    assert "TNLPAD patience 5 50.00 epoch 4 40.00" in text
    assert "unknown: we have one seed" in text
    assert "The table has the other variants." in text


def test_curves_are_drawn_for_each_column_that_has_runs(runs, tmp_path):
    page = report(tmp_path / "report", runs).page.read_text()
    assert page.count('class="figure curves"') == 4  # a column of the paper's, and one of other runs
    assert re.search(r"Standard: \d+ % after epoch 1, highest 99 % after epoch 4, 70 % at the end\.", page)
    reader = read(page)
    assert len(reader.ids) == len(set(reader.ids))


def test_at_most_twelve_curves_of_other_runs_are_drawn(tmp_path):
    for c2 in range(1, 13):
        write_run(tmp_path, Experiment(dataset="digits", noise="pairflip:0.3", method="tnlpad", settings={"c2": c2}), 1)
    page = report(tmp_path / "report", tmp_path).page.read_text()
    assert page.count(">TNLPAD, c2 12.0</text>") == page.count('class="figure curves"') == 2
    write_run(tmp_path, Experiment(dataset="digits", noise="pairflip:0.3", method="tnlpad", settings={"c2": 13}), 1)
    assert 'class="figure curves"' not in report(tmp_path / "report", tmp_path).page.read_text()


def test_sample_selection_is_on_the_page_and_in_files(runs, tmp_path):
    out = tmp_path / "report"
    written = report(out, runs)
    text = text_of(written.page)
    (setting,) = written.contents.selection
    assert [kept.key.method for kept in setting.rows] == ["coteaching", "coteaching_plus", "jocor", "cnlcu"]
    assert f"{setting.title} 4 rows".replace("\u00a0", " ") in text
    assert "Co-teaching 4 90.0 ± 0.0 · 55.6 ± 0.0 3" in text  # no epoch of these runs keeps every label
    assert {"selection.md", "selection.csv", "selection.tex"} <= {path.name for path in out.rglob("*")}
    only = report(tmp_path / "only", runs, tables=["simulated"])
    assert only.contents.selection == []
    assert "Sample selection" not in text_of(only.page)


def test_the_page_is_self_contained(runs, tmp_path):
    out = tmp_path / "report"
    page = report(out, runs).page.read_text()
    reader = read(page)
    assert "<script" not in page
    assert "@import" not in page
    assert "http" not in re.sub(r"xmlns(:\w+)?=\"[^\"]*\"|http-equiv", "", page)
    for address in reader.addresses:
        if address.startswith("#"):
            assert address[1:] in reader.ids, address
        else:
            assert (out / address).is_file(), address


def test_words_of_a_record_cannot_become_markup(runs, tmp_path):
    for path in runs.glob("*/summary.json"):
        edit(path, lambda summary: summary.update(machine="<img src=x>"))
    page = report(tmp_path / "report", runs, command="tnlpad report '<b>'").page.read_text()
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


def test_only_some_tables(runs, tmp_path):
    out = tmp_path / "report"
    written = report(out, runs, tables=["high_noise"])
    assert list(written.tables) == ["high_noise"]
    assert "No runs yet" in (out / "tables" / "high_noise.md").read_text()
    assert not (out / "tables" / "simulated.md").exists()


def test_the_trial_grid_is_shown_when_it_was_run(runs, tmp_path):
    assert "Everything once" not in text_of(report(tmp_path / "without", runs).page)
    write_run(runs, cells("smoke")[0], 1)
    text = text_of(report(tmp_path / "with", runs).page)
    assert "Everything once, on digits" in text
    assert "not in the paper" in text


# Damage


def test_damaged_records_are_named_on_the_page(runs, tmp_path):
    first, second, *_ = sorted(runs.iterdir())
    (first / "summary.json").write_text("{")
    (second / "epochs.jsonl").write_text("{\n" * 6)
    reseal(second)
    RunFolder(runs / "begun").begin({"a": 1})
    written = report(tmp_path / "report", runs)
    text = text_of(written.page)
    assert "2 records could not be used" in text
    assert f"{first}: " in text
    assert f"{second}: curves unreadable" in text
    assert "1 run is not finished yet." in text
    assert [problem.kind for problem in written.contents.problems] == ["unfinished", "damaged", "damaged"]
    assert "25 finished runs" in text


def test_a_figure_that_cannot_be_drawn_is_named_and_the_others_are_there(runs, tmp_path, monkeypatch):
    def collect(records, extras):
        raise KeyError("panels")

    broken = {**DRAWINGS, "tsne": replace(DRAWINGS["tsne"], collect=collect)}
    monkeypatch.setattr("tnlpad.report.write.DRAWINGS", broken)
    written = write_report(tmp_path / "out", finished_records([runs]), [])
    (problem,) = written.contents.problems
    assert problem.path == tmp_path / "out" / "figures" / "tsne"
    assert "the figure tsne cannot be drawn from these runs" in problem.reason
    (problem,) = write_report(tmp_path / "out", [], [], extras={"tsne": {}}).contents.problems
    assert problem.path == Path("tsne.json")
    assert "the figure tsne cannot be drawn from it" in problem.reason
    drawn = {figure.name: figure.svg is not None for figure in written.contents.figures}
    assert not drawn["tsne"]
    assert drawn["beta"]


def test_a_column_without_readable_curves_has_no_figure(runs, tmp_path):
    for path in runs.iterdir():
        (path / "epochs.jsonl").write_text("{}\n" * 6)
        reseal(path)
    page = report(tmp_path / "report", runs).page.read_text()
    assert 'class="figure curves"' not in page
    assert "99.08" in page


def test_a_full_disk_leaves_no_part_of_a_file(runs, tmp_path, monkeypatch):
    out = tmp_path / "report"
    out.mkdir()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        report(out, runs)
    assert [path for path in out.rglob("*") if path.is_file()] == []


def test_a_report_can_be_moved(runs, tmp_path):
    report(tmp_path / "report", runs)
    shutil.move(tmp_path / "report", tmp_path / "moved")
    page = (tmp_path / "moved" / "index.html").read_text()
    assert all((tmp_path / "moved" / a).is_file() for a in read(page).addresses if not a.startswith("#"))


def test_the_datasets_are_a_table_in_every_format(runs, tmp_path):
    written = write_report(tmp_path, finished_records([runs]), [], datasets=datasets_table())
    tables = {path.name: path.read_text() for path in written.files if path.stem == "datasets"}
    assert tables.keys() == {"datasets.md", "datasets.csv", "datasets.tex"}
    assert "| CIFAR-100 | 50,000 | 10,000 | 100 | 32×32×3 | ResNet-50 | 64 | 100 | 0.2 |" in tables["datasets.md"]
    assert "CIFAR-100,50000,10000,100," in tables["datasets.csv"]  # plain numbers
    assert "Clothing1M,1000000,10526,14," in tables["datasets.csv"]
    assert r"CIFAR-100 & 50,000 & 10,000 & 100 & 32$\times$32$\times$3 &" in tables["datasets.tex"]
    assert 'href="tables/datasets.tex"' in written.page.read_text()
