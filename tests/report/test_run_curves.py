import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import Experiment, cells
from tnlpad.records.archive import finished_records
from tnlpad.report.method_styles import METHOD_STYLES
from tnlpad.report.paper_tables import blocks
from tnlpad.report.results import table_results
from tnlpad.report.run_curves import MAX_CURVES, block_curves, file_figure, page_figures, study_curves
from tnlpad.report.studies import studies
from tnlpad.report.write import write_report

COLUMN = [cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"]


@pytest.fixture
def runs(tmp_path):
    for cell in COLUMN:
        for seed in (1, 2):
            write_run(tmp_path, cell, seed, accuracy=cell.published.mean / 100 + seed / 1000)
    return tmp_path


@pytest.fixture
def drawn(runs):
    block, *_ = blocks(table_results("simulated", finished_records([runs])))
    return block_curves(block)


def test_every_curve_differs_from_every_other(drawn):
    assert (
        len(drawn) == len({curve.style.light for curve in drawn}) == len({curve.style.dashes for curve in drawn}) == 9
    )
    assert [curve.label for curve in drawn][-2:] == ["Standard", "TNLPAD"]  # on top
    assert drawn[-1].style == METHOD_STYLES["tnlpad"]


def test_variants_of_a_method_differ(tmp_path):
    for c2 in (1, 2, 3):
        write_run(tmp_path, Experiment(dataset="digits", noise="pairflip:0.3", method="tnlpad", settings={"c2": c2}), 1)
    ((_, rows),) = studies(finished_records([tmp_path]))[0].blocks
    curves = study_curves(rows)
    assert len({curve.style.dashes for curve in curves}) == len({curve.style.light for curve in curves}) == 3
    assert study_curves(rows * MAX_CURVES) == []
    (test, memorised) = page_figures("name", "title", curves)
    for curve in curves:
        assert f'stroke-dasharray="{curve.style.dashes}"' in test or not curve.style.dashes
        assert f"var({curve.style.variable})" in memorised


def test_a_file_has_both_quantities_and_a_legend(drawn):
    figure = file_figure("MNIST, symmetric 20 %", drawn)
    test, memorised = figure.axes
    assert (test.get_ylabel(), memorised.get_ylabel()) == ("test accuracy, %", "memorised, %")
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {curve.label for curve in drawn}
    shown = {line.get_label(): line for line in test.get_lines()}
    for curve in drawn:
        assert shown[curve.label].get_color() == curve.style.light
    # The middle epoch has the highest accuracy: of both seeds on average 99.02 + 0.15.
    assert max(shown["TNLPAD"].get_ydata()) == pytest.approx(99.17)
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y1 <= test.get_window_extent().y0
    assert file_figure("nothing", []) is None


def test_the_report_writes_curves_as_files_and_links_them(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.report.write.DRAWINGS", {})
    out = tmp_path / "report"
    out.mkdir()
    written = write_report(out, finished_records([runs]), [], tables=["simulated"])
    page = written.page.read_text()
    for kind, start in (("svg", b"<?xml"), ("pdf", b"%PDF")):
        file = out / "figures" / f"curves-simulated-mnist-symmetric-0-2.{kind}"
        assert file.read_bytes().startswith(start)
        assert file in written.files
        assert f'href="figures/{file.name}"' in page
