import re
import shutil
import subprocess

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.latex import SIDEWAYS_LINES, UPRIGHT_LINES, escape_latex, latex_file, latex_table
from tnlpad.report.leads import leads, leads_files
from tnlpad.report.paper_table_files import paper_table_files
from tnlpad.report.results import table_results
from tnlpad.report.selection import selection_files, settings_with_selection
from tnlpad.report.table import StackedCell, Table

TABLE = Table(
    title="Results",
    headings=["method", "a_b", "c | d"],
    align="lrr",
    rows=[
        ["Standard", StackedCell(text="99.0 ± 0.1", mark="≈", below="98.8", bold=True), StackedCell(text="·")],
        ["CDR", "95.0", ""],
    ],
)


def test_the_second_line_of_cells_is_a_row_of_small_type():
    assert latex_table(TABLE, "50 %").splitlines() == [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\caption{50 \%}\smallskip",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{lrr}",
        r"\hline",
        r" & a\_b & c | d \\",
        r"\hline",
        r"Standard & \textbf{99.0\,$\pm$\,0.1}\textsuperscript{$\approx$} & $\cdot$ \\",
        r" & {\scriptsize 98.8} &  \\",
        r"CDR & 95.0 &  \\",
        r"\hline",
        r"\end{tabular}}",
        r"\end{table}",
    ]


def test_neighbours_share_the_upper_line_of_a_heading():
    heads = [("", ""), ("symmetric", "20 %"), ("symmetric", "40 %"), ("", "rank")]
    table = Table(
        title="T", headings=["m", "a", "b", "c"], short_headings=heads, align="lrrr", rows=[["x", "1", "2", "3"]]
    )
    lines = latex_table(table, "T").splitlines()
    assert r" & \multicolumn{2}{c}{symmetric} & \multicolumn{1}{c}{} \\" in lines
    assert r" & 20 \% & 40 \% & rank \\" in lines


def wide(columns, rows=3, below=""):
    cells = [StackedCell(text="99.00 ± 0.14", mark="≈", below=below)] * columns
    headings = ["method", *["symmetric"] * columns]
    return Table(title="Wide", headings=headings, align="l" + "r" * columns, rows=[["Co-teaching+", *cells]] * rows)


def test_a_wide_table_is_turned_and_a_long_one_is_continued():
    assert re.findall(r"\\begin\{(\w*table\*?)\}", latex_table(wide(2), "")) == ["table"]
    assert re.findall(r"\\begin\{(\w*table\*?)\}", latex_table(wide(4), "")) == ["table*"]
    assert re.findall(r"\\begin\{(\w*table\*?)\}", latex_table(wide(8), "")) == ["sidewaystable*"]
    long = latex_table(wide(2, rows=UPRIGHT_LINES + 1), "First")
    assert re.findall(r"\\caption\{(.*)\}\\smallskip", long) == ["First", "Wide, continued."]
    assert long.count("Co-teaching+ &") == UPRIGHT_LINES + 1
    stacked = latex_table(wide(8, rows=SIDEWAYS_LINES // 2, below="98.9"), "First")
    assert stacked.count(r"\caption") == 1  # two lines for each row
    assert latex_table(wide(8, rows=SIDEWAYS_LINES // 2 + 1, below="98.9"), "First").count(r"\caption") == 2


def test_a_file_names_the_packages_that_it_needs():
    first, second = latex_file("Results", [latex_table(TABLE, "A")]).splitlines()[:2]
    assert first.endswith(r"needs \usepackage{graphicx}.")
    assert second == r"\begin{table}"
    assert r"\usepackage{graphicx,rotating}" in latex_file("Results", [latex_table(wide(8), "A")])


def test_commands_are_escaped():
    assert escape_latex(r"a_b & 50 % {x} \input{y} $z$ #1 ~ ^") == (
        r"a\_b \& 50 \% \{x\} \textbackslash{}input\{y\} \$z\$ \#1 \textasciitilde{} \textasciicircum{}"
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Every method on MNIST, at all settings with three seeds each."""
    runs = tmp_path_factory.mktemp("runs")
    for cell in cells("simulated"):
        for seed in (1, 2, 3) if cell.dataset == "mnist" else ():
            write_run(runs, cell, seed, accuracy=cell.published.mean / 100 + seed / 2000, epochs=2)
    return finished_records([runs])


@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_tables_of_many_methods_fit_a_page(many, tmp_path, columns):
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base texlive-latex-recommended")
    tables = [table_results(name, many) for name in ("simulated", "networks", "real_world")]
    files = [paper_table_files(table).latex for table in tables]
    files += [leads_files(leads(tables)).latex, selection_files(settings_with_selection(many)).latex]
    head = rf"\documentclass[{columns}]{{article}}\usepackage{{graphicx,rotating}}"
    text = "\n".join([head, r"\begin{document}", *files, r"\end{document}"])
    (tmp_path / "all.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:]
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert re.findall(r"Overfull .*|Float too large.*|Package .* Warning.*", log) == []
