import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.paper_tables import RANK_LEGEND, blocks, matrices, variant_label
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


def test_a_method_with_other_seeds_may_be_the_best(tmp_path):
    """Nothing is known about ties then, and ranks are by the methods' own means."""
    rows = {cell.row: cell for cell in COLUMN}
    for row, seeds, accuracy in (("standard", (1, 2, 3), 0.95), ("cdr", (1, 2, 3), 0.96), ("tnlpad", (4, 5), 0.99)):
        for seed in seeds:
            write_run(tmp_path, rows[row], seed, accuracy=accuracy + seed / 1000)
    matrix = matrices(table_results("simulated", finished_records([tmp_path])))[0]
    assert matrix.best[0] == {("tnlpad", "")}
    assert {row: rank.ours for (row, _), rank in matrix.ranks.items()} == {"tnlpad": 1, "cdr": 2, "standard": 3}


def test_ranks_are_by_common_seeds(tmp_path):
    """Over its five seeds standard is better, over the three that both have tnlpad is."""
    rows = {cell.row: cell for cell in COLUMN}
    for seed in range(1, 6):
        write_run(tmp_path, rows["standard"], seed, accuracy=0.94 if seed <= 3 else 0.99)
        if seed <= 3:
            write_run(tmp_path, rows["tnlpad"], seed, accuracy=0.95)
    matrix = matrices(table_results("simulated", finished_records([tmp_path])))[0]
    assert {row: rank.ours for (row, _), rank in matrix.ranks.items()} == {"tnlpad": 1, "standard": 2}
    assert "mean over the seeds that all of them have" in RANK_LEGEND


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
