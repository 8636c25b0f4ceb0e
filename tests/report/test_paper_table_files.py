import csv
import io
import re

import pytest

from tnlpad.paper.cells import cells
from tnlpad.report.paper_table_files import paper_table_files
from tnlpad.report.paper_tables import BOLD
from tnlpad.report.results import TITLES, table_results

COLUMN = [cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"]

# Markdown


def markdown(table, level=1):
    return paper_table_files(table, level).markdown


def test_a_row_says_everything(table):
    text = markdown(table)
    assert text.startswith("# Test accuracy under simulated noise\n")
    assert "2 of 288 cells have runs; `tnlpad reproduce simulated` runs" in text
    assert "Epoch chosen by: first epoch of the highest noisy validation accuracy." in text
    assert "Unless noted: bfloat16, compiled." in text
    # 2·√(0.1414²/2 + 0.07²/5) = 0.2096
    assert (
        "| TNLPAD | **99.00 ± 0.14** (epoch 4) | 97.00 ± 0.00 | 25.00 ± 0.00 | 2 of 5 | 99.02 ± 0.07 (n 5) | −0.02 | "
        "yes: 0.02 ≤ 0.21 |"
    ) in text
    assert "| TNLPAD (float32) | 95.00 (epoch 4) |" in text
    assert "| −4.02 | unknown: we have one seed |" in text


def test_empty_cells_have_a_command(table):
    text = markdown(table)
    assert "| CDR |" in text  # published numbers, folded
    assert "--only mnist --methods coteaching,coteaching_plus,jocor,sigua,cnlcu,adacorr,cdr`" in text
    assert "Without runs: `tnlpad reproduce simulated --only mnist/symmetric-0.2 --methods coteaching," in text
    assert text.count("<details>") == text.count("</details>") == 3  # methods, the column, other columns
    assert text.index("<details>") < text.index("| CDR |")
    assert "· |" not in text[text.index("<details>") :]
    assert "- MNIST, instance 40\u00a0%: `tnlpad reproduce simulated --only mnist/instance-0.4`" in text
    assert "- CIFAR-100, 8 columns: `tnlpad reproduce simulated --only cifar100`" in text
    assert "No runs yet: run `tnlpad reproduce high_noise`." in markdown(table_results("high_noise", []))


def test_the_overview_has_the_papers_layout(table):
    lines = markdown(table).splitlines()
    heading = next(line for line in lines if line.startswith("| method | symmetric"))
    assert heading.endswith("| mean rank, 1 column |")
    assert heading.count("|") == 11
    line = next(line for line in lines if line.startswith("| TNLPAD | **"))
    assert line.startswith("| TNLPAD | **99.00 ± 0.14** (2) ≈<br>99.02 ± 0.07 | ·<br>98.84 ± 0.06 |")
    assert line.endswith("| 1.0<br>1.0 |")
    variant = next(line for line in lines if line.startswith("| TNLPAD (float32) | 95.00"))
    assert variant == "| TNLPAD (float32) | 95.00 (1) ?<br>99.02 ± 0.07 |  |  |  |  |  |  |  |  |"
    assert "| Standard | 98.00 (1) ?<br>98.95 ± 0.12 |" in "\n".join(lines)  # one seed: not bold, and no tie


def test_every_row_of_a_table_has_as_many_cells_as_its_heading(table, smoke):
    for each in (table, smoke):
        for part in re.findall(r"(?:^\|.*\n)+", markdown(each), re.MULTILINE):
            assert len({line.count("|") for line in part.splitlines()}) == 1


def test_without_published_numbers_nothing_is_compared(smoke):
    text = markdown(smoke, level=2)
    assert text.startswith("## Everything once, on digits\n")
    assert "paper" not in text
    assert BOLD in text
    assert "| TNLPAD | **90.00 ± 0.00** (epoch 4) | 80.00 ± 0.00 | 30.00 ± 0.00 | 2 |" in text
    assert "Without runs: `tnlpad reproduce smoke --only digits/symmetric-0.4 --methods standard`" in text


# LaTeX


def latex(table):
    return paper_table_files(table).latex


def test_latex_shows_ours_above_the_papers(table):
    text = latex(table)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1  # of MNIST: the others have no runs
    assert r"TNLPAD & 2 & \textbf{99.00\,$\pm$\,0.14}\textsuperscript{$\approx$} & $\cdot$" in text
    assert r" &  & {\scriptsize 99.02\,$\pm$\,0.07} & {\scriptsize 98.84\,$\pm$\,0.06}" in text
    assert r"TNLPAD (float32) & 1 & 95.00\textsuperscript{?} &  &  &" in text
    assert r"\multicolumn{2}{c}{symmetric} & \multicolumn{2}{c}{asymmetric}" in text
    assert r" & n & 20~\% & 40~\% & 20~\%" in text


def test_a_caption_says_what_is_measured(table):
    (caption,) = re.findall(r"\\caption\{(.*)\}\\smallskip", latex(table))
    assert r"Test accuracy in percent, mean\,$\pm$\,standard deviation over seeds" in caption


def test_a_caption_explains_only_what_is_there(smoke):
    """The table is not in the paper, and of one column there is no mean rank."""
    text = latex(smoke)
    assert "paper" not in text
    assert "published" not in text
    assert "rank" not in text


def test_every_line_of_latex_has_as_many_cells(table):
    body = re.search(r"\\begin\{tabular\}.*?\\end\{tabular\}", latex(table), re.DOTALL)[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {10}


@pytest.mark.parametrize("name", TITLES)
def test_latex_is_plain_ascii(name):
    """No letter needs a package."""
    assert latex(table_results(name, [])).isascii()


# CSV


def csv_text(table):
    return paper_table_files(table).by_suffix()["csv"]


def test_csv_has_a_row_for_each_group_and_each_empty_cell(table):
    found = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert len(found) == 288 + 1
    first = next(row for row in found if row["row"] == "tnlpad" and row["variant"] == "bfloat16, compiled")
    assert (first["mean"], first["sd"], first["n"], first["trials"]) == ("99.0", "0.1414", "2", "5")
    assert (first["last_mean"], first["memorised_mean"]) == ("97.0", "25.0")
    assert (first["paper_mean"], first["paper_sd"], first["paper_n"]) == ("99.02", "0.07", "5")
    assert (first["difference"], first["within"], first["unknown"]) == ("-0.02", "True", "")
    assert first["seeds"] == "1 2"
    assert len(first["runs"].split()) == 2
    empty = next(row for row in found if row["row"] == "cdr")
    assert (empty["n"], empty["mean"], empty["within"]) == ("0", "", "")
    assert empty["command"] == "tnlpad reproduce simulated --only mnist/symmetric-0.2 --methods cdr"
    single = next(row for row in found if row["row"] == "standard")
    assert (single["sd"], single["within"], single["unknown"]) == ("", "", "we have one seed")


def test_plain_data_has_the_same_fields_in_every_row(table):
    plain = paper_table_files(table).rows
    assert len({tuple(row) for row in plain}) == 1
    assert next(row for row in plain if row["row"] == "tnlpad" and row["n"] == 2)["within"] is True
    assert all(row["command"] is None or row["n"] < row["trials"] for row in plain)


@pytest.mark.parametrize("name", TITLES)
def test_tables_without_any_run(name):
    table = table_results(name, [])
    assert len(paper_table_files(table).rows) == len(cells(name))
    assert csv_text(table).count("\n") == len(cells(name)) + 1
    assert table.command in markdown(table)
    assert "table" in latex(table)
