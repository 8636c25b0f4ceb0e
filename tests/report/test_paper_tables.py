import csv
import io
import re
import shutil
import subprocess

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.paper_tables import blocks, matrices, paper_table_files, variant_label
from tnlpad.report.results import TITLES, table_results

GPU = {"precision": "bfloat16", "compiled": True}
COLUMN = [cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"]
TNLPAD = next(cell for cell in COLUMN if cell.row == "tnlpad")

# Matrices and blocks


@pytest.mark.parametrize("name", TITLES)
def test_every_cell_has_its_place_in_a_matrix_and_in_a_block(name):
    table = table_results(name, [])
    in_matrices = [entry for matrix in matrices(table) for line in matrix.lines for entry, _ in line.cells]
    in_blocks = [entry for block in blocks(table) for entry in block.entries]
    everything = sorted(cell.name for cell in cells(name))
    assert sorted(entry.cell.name for entry in in_matrices) == everything
    assert sorted(entry.cell.name for entry in in_blocks) == everything
    for matrix in matrices(table):
        assert all(len(line.cells) == len(matrix.columns) for line in matrix.lines)
        assert len(matrix.headings) == len(matrix.names) == len(matrix.columns)


def test_the_layout_is_that_of_the_paper():
    table = table_results("simulated", [])
    assert [matrix.title for matrix in matrices(table)] == ["MNIST", "Fashion-MNIST", "CIFAR-10", "CIFAR-100"]
    assert len(blocks(table)) == 32
    (real,) = matrices(table_results("real_world", []))
    assert real.headings[:2] == ["Food-101", "Clothing1M"]


def test_variants_have_lines_of_their_own(tmp_path):
    for cell in COLUMN:
        write_run(tmp_path, cell, 1, settings=GPU)
    write_run(tmp_path, TNLPAD, 1)
    table = table_results("simulated", finished_records([tmp_path]))
    matrix = matrices(table)[0]
    assert matrix.main_label == "bfloat16, compiled"
    assert matrix.filled
    assert not matrices(table)[1].filled
    lines = [line for line in matrix.lines if line.row == "tnlpad"]
    assert [(line.label, line.first) for line in lines] == [("bfloat16, compiled", True), ("", False)]
    assert [group is not None for _, group in lines[1].cells] == [True, *[False] * 7]
    assert variant_label(lines[0].label, matrix.main_label) == ""
    assert variant_label(lines[1].label, matrix.main_label) == "float32"
    block = blocks(table)[0]
    assert (block.name, block.filled, len(block.entries)) == ("mnist/symmetric-0.2", 9, 9)
    assert len(list(block.rows)) == len(block.comparisons) == 10


def test_the_main_variant_comes_first_among_equals(tmp_path):
    """The main variant is the one of most runs in the matrix."""
    for cell in COLUMN:
        write_run(tmp_path, cell, 1, settings={"patience": 20})
    write_run(tmp_path, TNLPAD, 1, settings=GPU)
    matrix = matrices(table_results("simulated", finished_records([tmp_path])))[0]
    lines = [line for line in matrix.lines if line.row == "tnlpad"]
    assert [line.label for line in lines] == ["patience 20", "bfloat16, compiled"]
    assert [(line.title, matrix.variant(line)) for line in lines] == [("TNLPAD", ""), ("TNLPAD", "bfloat16, compiled")]
    for line in lines:  # each with its own runs
        assert [group.label for _, group in line.cells if group] == [line.label]


def test_whether_some_method_has_runs_of_several_variants(tmp_path):
    write_run(tmp_path, TNLPAD, 1)
    (block, *_) = blocks(table_results("simulated", finished_records([tmp_path])))
    assert not block.several_variants
    write_run(tmp_path, TNLPAD, 1, settings=GPU)
    (block, *_) = blocks(table_results("simulated", finished_records([tmp_path])))
    assert block.several_variants


def test_the_variant_with_most_cells_comes_first(tmp_path):
    for cell in COLUMN:
        write_run(tmp_path, cell, 1, settings={"patience": 20})
    columns = [cell for cell in cells("simulated") if cell.dataset == "mnist" and cell.row == "tnlpad"]
    for cell in columns[:2]:
        write_run(tmp_path, cell, 1, settings=GPU)
    matrix = matrices(table_results("simulated", finished_records([tmp_path])))[0]
    lines = [line for line in matrix.lines if line.row == "tnlpad"]
    assert matrix.main_label == "patience 20"
    assert [(line.label, line.first) for line in lines] == [("bfloat16, compiled", True), ("patience 20", False)]


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
    assert "- CIFAR-100, instance 40\u00a0%: `tnlpad reproduce simulated --only cifar100/instance-0.4`" in text
    assert "No runs yet: run `tnlpad reproduce high_noise`." in markdown(table_results("high_noise", []))


def test_the_overview_has_the_papers_layout(table):
    lines = markdown(table).splitlines()
    heading = next(line for line in lines if line.startswith("| method | symmetric"))
    assert heading.endswith("| mean rank |")
    assert heading.count("|") == 11
    line = next(line for line in lines if line.startswith("| TNLPAD | **"))
    assert line.startswith("| TNLPAD | **99.00 ± 0.14** (2) ≈<br>99.02 ± 0.07 | ·<br>98.84 ± 0.06 |")
    assert line.endswith("| 1.0<br>1.0 |")
    variant = next(line for line in lines if line.startswith("| TNLPAD (float32) | 95.00"))
    assert variant == "| TNLPAD (float32) | 95.00 (1) ?<br>99.02 ± 0.07 |  |  |  |  |  |  |  |  |"
    assert "| Standard | 98.00 (1) ?<br>98.95 ± 0.12 |" in "\n".join(lines)  # one seed: not bold, and no tie


def test_the_best_of_a_column_is_bold_and_so_is_what_ties_with_it(tmp_path):
    """Three common seeds: cdr differs from tnlpad by -0.1, 0.1, 0.0 points, standard by 2 in every seed."""
    rows = {cell.row: cell for cell in COLUMN}
    for seed, cdr in ((1, 0.979), (2, 0.991), (3, 0.985)):
        write_run(tmp_path, rows["tnlpad"], seed, accuracy=0.98 + (seed - 1) * 0.01 - (seed == 3) * 0.015)
        write_run(tmp_path, rows["cdr"], seed, accuracy=cdr - 0.0001)
        write_run(tmp_path, rows["standard"], seed, accuracy=0.96 + seed / 10_000)
    table = table_results("simulated", finished_records([tmp_path]))
    matrix = matrices(table)[0]
    assert matrix.best[0] == {("tnlpad", ""), ("cdr", "")}
    assert not any(matrix.best[1:])
    assert blocks(table)[0].best == matrix.best[0]
    assert {row: rank.ours for (row, _), rank in matrix.ranks.items()} == {"tnlpad": 1, "cdr": 2, "standard": 3}
    # In the paper: 99.02, 98.99 and 98.95.
    assert {row: rank.published for (row, _), rank in matrix.ranks.items()} == {"tnlpad": 1, "cdr": 2, "standard": 3}


def test_ranks_are_over_the_columns_that_all_methods_have(tmp_path):
    for cell in cells("simulated"):
        if cell.dataset == "mnist" and cell.row in ("standard", "tnlpad"):
            better = (cell.row == "tnlpad") == (cell.column != "symmetric-0.4")
            write_run(tmp_path, cell, 1, accuracy=0.95 if better else 0.9)
    write_run(tmp_path, next(cell for cell in COLUMN if cell.row == "cdr"), 1, accuracy=0.85)
    matrix = matrices(table_results("simulated", finished_records([tmp_path])))[0]
    assert {(row, rank.ours, rank.columns) for (row, _), rank in matrix.ranks.items()} == {
        ("tnlpad", 1.0, 1),
        ("standard", 2.0, 1),
        ("cdr", 3.0, 1),
    }


def test_every_row_of_a_table_has_as_many_cells_as_its_heading(table, smoke):
    for each in (table, smoke):
        for part in re.findall(r"(?:^\|.*\n)+", markdown(each), re.MULTILINE):
            assert len({line.count("|") for line in part.splitlines()}) == 1


def test_without_published_numbers_nothing_is_compared(smoke):
    text = markdown(smoke, level=2)
    assert text.startswith("## Everything once, on digits\n")
    assert "paper" not in text
    assert "| TNLPAD | **90.00 ± 0.00** (epoch 4) | 80.00 ± 0.00 | 30.00 ± 0.00 | 2 |" in text
    assert "Without runs: `tnlpad reproduce smoke --only digits/symmetric-0.4 --methods standard`" in text


# LaTeX


def latex(table):
    return paper_table_files(table).latex


def test_latex_shows_ours_above_the_papers(table):
    text = latex(table)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1  # of MNIST: the others have no runs
    assert r"TNLPAD & \textbf{99.00 $\pm$ 0.14} (2) $\approx$ & $\cdot$" in text
    assert r" & {\scriptsize 99.02 $\pm$ 0.07} & {\scriptsize 98.84 $\pm$ 0.06}" in text
    assert r"TNLPAD (float32) & 95.00 (1) ? &  &  &" in text
    assert "symmetric 20~\\%" in text


def test_every_line_of_latex_has_as_many_cells(table):
    body = re.search(r"\\begin\{tabular\}.*?\\end\{tabular\}", latex(table), re.DOTALL)[0]
    counts = {len(re.findall(r"(?<!\\)&", line)) for line in body.splitlines() if line.endswith(r"\\")}
    assert counts == {9}


@pytest.mark.parametrize("name", TITLES)
def test_latex_is_plain_ascii(name):
    """No letter needs a package."""
    assert latex(table_results(name, [])).isascii()


def test_latex_compiles(table, smoke, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base")
    document = "\n".join([r"\documentclass{article}\begin{document}", latex(table), latex(smoke), r"\end{document}"])
    (tmp_path / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


# CSV


def csv_text(table):
    return paper_table_files(table).by_suffix["csv"]


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
    assert latex(table).count(r"\begin{table}") >= 1
