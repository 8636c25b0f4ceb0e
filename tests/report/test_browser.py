"""The report in a browser."""

import re
import subprocess
import sys
import time

import pytest

from tests.chromium import chromium
from tests.synthetic_runs import write_run
from tnlpad.cli.report import datasets_table
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.drawings import DRAWINGS
from tnlpad.report.leads import lead_matrices
from tnlpad.report.paper_tables import blocks, matrices
from tnlpad.report.remarks import outside_table
from tnlpad.report.write import write_report

pytestmark = pytest.mark.browser
WIDTHS = {"desktop": 1280, "phone": 420}
GPU = {"precision": "bfloat16", "compiled": True}


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The trial grid in full, two columns of the paper's main table with a variant, and a damaged record."""
    runs, out = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("report")
    for cell in cells("smoke"):
        for seed in (1, 2):
            write_run(runs, cell, seed, accuracy=0.8 + seed / 100)
    for cell in cells("simulated"):
        if cell.group in ("cifar10/symmetric-0.4", "cifar10/instance-0.4") and cell.row in ("standard", "tnlpad"):
            for seed in (1, 2):
                write_run(runs, cell, seed, accuracy=cell.published.mean / 100 + seed / 1000, settings=GPU)
            write_run(runs, cell, 1, accuracy=0.8, settings={"patience": 10})
    (runs / "damaged.json").write_text("{")
    problems = []
    return write_report(out, finished_records([runs], problems.append), problems, datasets=datasets_table())


@pytest.fixture(params=WIDTHS)
def page(browser, written, request):
    with browser.open(written.page, WIDTHS[request.param]) as opened:
        yield opened


def test_the_browser_logs_no_errors(page):
    assert page.complaints == []


def test_nothing_else_is_loaded(page, written):
    assert page.requests == [written.page.resolve().as_uri()]


def test_every_table_and_figure_is_there_and_has_a_size(page, written):
    shown = page.run("[...document.querySelectorAll('section')].map(each => each.getAttribute('aria-labelledby'))")
    tables = [table.name for table in written.contents.tables if table.filled]
    wanted = ["overview", "headline", "paired", *tables, "selection", "figures", "datasets", "reading"]
    assert [name for name in wanted if name not in shown] == []
    headings = page.run("[...document.querySelectorAll('h2')].map(each => each.textContent)")
    assert all(table.title in headings for table in written.contents.tables if table.filled)
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    sizes = page.run(
        "[...document.querySelectorAll('table, svg.figure')].map(each => {"
        " const box = each.getBoundingClientRect(); return [each.tagName, box.width, box.height] })"
    )
    drawn = sum(figure.svg is not None for figure in written.contents.figures)
    columns = sum(block.filled > 0 for table in written.contents.tables for block in blocks(table))
    overviews = sum(
        matrix.filled for table in written.contents.tables if len(blocks(table)) > 1 for matrix in matrices(table)
    )
    assert (columns, overviews) == (4, 2)  # one of the runs' columns stands in the ablation as well
    figures = [size for size in sizes if size[0] == "svg"]
    assert len(figures) == drawn + 2 * columns
    kept = len(written.contents.selection)
    assert kept == 1
    folded = sum(
        bool(matrix.filled and matrix.empty_lines) + (outside_table(matrix, {})[0] is not None)
        for table in written.contents.tables
        if len(blocks(table)) > 1
        for matrix in matrices(table)
    )
    # Also: what is here, TNLPAD next to standard training, all paired comparisons, and the datasets.
    paired = len(lead_matrices(written.contents.leads)) + 1
    assert len(sizes) - len(figures) == 2 + paired + overviews + folded + columns + kept + 1
    assert all(width > 100 and height > 40 for _, width, height in sizes)
    for figure in written.contents.figures:
        assert page.run(f"!!document.getElementById('figure-{figure.name}')"), figure.name


def test_the_page_never_scrolls_sideways(page):
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.run("document.documentElement.scrollWidth") <= page.run("innerWidth")
    outside = page.run(
        "[...document.querySelectorAll('main *')].filter(each => !each.closest('.scroll, svg, pre, .hidden')"
        " && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"
    )
    assert outside == []


def test_letters_in_figures_can_be_read(page):
    """Figures and their text are smaller on a phone."""
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    heights = page.run(
        "[...document.querySelectorAll('svg.figure text')].map(each => parseFloat(getComputedStyle(each).fontSize)"
        " * each.getScreenCTM().a).filter(size => size > 0)"
    )
    assert len(heights) > 50
    assert min(heights) >= 6


def test_text_stays_inside_its_figure(page):
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    outside = page.run(
        "[...document.querySelectorAll('svg.curves')].flatMap(svg => { const box = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].filter(each => { const own = each.getBoundingClientRect();"
        " return own.right > box.right + 6 || own.left < box.left - 1 || own.bottom > box.bottom + 1 })"
        ".map(each => each.textContent) })"
    )
    assert outside == []


def test_keys_reach_every_box_that_scrolls(page):
    boxes = page.run(
        "[...document.querySelectorAll('.scroll')].map(each => [each.tabIndex, each.getAttribute('aria-label')])"
    )
    assert len(boxes) >= 5
    assert all(index == 0 and label for index, label in boxes)


def test_a_link_to_a_column_opens_it(browser, written):
    with browser.open(written.page, 1280) as page:
        page.run("document.querySelectorAll('details').forEach(each => each.open = false)")
        page.run("document.querySelector('.matrix thead a').click()")
        page.run("new Promise(done => setTimeout(done, 100))")
        assert page.run("document.querySelector(location.hash).closest('details').open")


@pytest.mark.parametrize(("colours", "background"), [("light", "rgb(255"), ("dark", "rgb(20")])
def test_colours_follow_the_reader(browser, written, colours, background):
    with browser.open(written.page, 1280, colours) as page:
        assert page.run("getComputedStyle(document.body).backgroundColor").startswith(background)
        stroke = page.run("getComputedStyle(document.querySelector('.curves .line')).stroke")
        assert re.match(r"rgb\(\d+", stroke)
        assert page.complaints == []


def test_in_print_everything_is_open_and_light(browser, written):
    with browser.open(written.page, 1280, "dark") as page:
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.run("getComputedStyle(document.body).backgroundColor").startswith("rgb(255")
        hidden = page.run(
            "[...document.querySelectorAll('details table')].filter("
            "each => each.getBoundingClientRect().height < 20).length"
        )
        assert hidden == 0


def test_a_page_that_is_wrong_is_noticed(browser, tmp_path):
    """Check that the browser reports errors at all."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<img src='nowhere.png'><script>console.error('oops'); nothing()</script><p style='width: 3000px'>wide</p>"
        "<svg><rect width='-3'/></svg>"
    )
    with browser.open(bad, 1280) as page:
        said = " ".join(page.complaints)
        for wanted in ("oops", "nothing is not defined", "nowhere.png", "negative value"):
            assert wanted in said
        assert len(page.requests) == 2
        assert page.run("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.long
def test_the_whole_path_from_training_to_the_page(browser, tmp_path):
    """Run every method and figure on digits, killed once and resumed, then write the report."""
    runs, out = tmp_path / "runs", tmp_path / "report"
    words = ["reproduce", "smoke", "--seeds", "1", "--out", str(runs), "--quiet"]
    driver = subprocess.Popen([sys.executable, "-m", "tnlpad", *words])
    while driver.poll() is None and len(list(runs.glob("*/summary.json"))) < 10:
        time.sleep(0.1)
    driver.kill()
    assert driver.wait() != 0, "it was finished before it could be killed"
    for again in (words, ["report", str(runs), "--out", str(out)]):
        subprocess.run([sys.executable, "-m", "tnlpad", *again], check=True)
    for width in WIDTHS.values():
        with browser.open(out / "index.html", width) as page:
            assert page.complaints == []
            assert len(page.requests) == 1
            assert page.run("document.querySelectorAll('#smoke').length") == 1
            drawn = page.run("[...document.querySelectorAll('figure[id] > svg')].map(each => each.parentElement.id)")
            assert drawn == [f"figure-{name}" for name in DRAWINGS]
            rows = page.run("document.querySelector('#smoke-digits-symmetric-0-4').querySelectorAll('tbody tr').length")
            assert rows == len(cells("smoke"))
            assert page.run("document.documentElement.scrollWidth") <= width
