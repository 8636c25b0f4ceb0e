import csv
import io

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.leads import (
    behind_in,
    counts_table,
    intervals_table,
    lead_matrices,
    leads,
    leads_files,
    leads_markdown,
)
from tnlpad.report.results import TITLES, table_results

COLUMN = {cell.row: cell for cell in cells("simulated") if cell.group == "cifar10/symmetric-0.4"}


def tables(path):
    return [table_results(name, finished_records([path])) for name in TITLES]


@pytest.fixture
def found(tmp_path):
    """TNLPAD is ahead of Standard in every seed, and level with CDR; JoCoR has two seeds."""
    for seed, cdr in ((1, 0.879), (2, 0.891), (3, 0.90)):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=0.87 + seed / 100)
        write_run(tmp_path, COLUMN["standard"], seed, accuracy=0.85 + seed / 100 + (seed == 2) / 1000)
        write_run(tmp_path, COLUMN["cdr"], seed, accuracy=cdr)
        if seed < 3:
            write_run(tmp_path, COLUMN["jocor"], seed, accuracy=0.8)
    return leads(tables(tmp_path))


def test_tnlpad_is_compared_with_each_method_once(found):
    """The ablation has the same runs of both."""
    assert sorted(lead.rival.cell.row for lead in found) == ["cdr", "jocor", "standard"]
    (standard,) = (lead for lead in found if lead.rival.cell.row == "standard")
    assert standard.paired.difference == pytest.approx(5.9 / 3)
    assert standard.published == pytest.approx(87.83 - 86.26)


def test_counts_are_over_the_columns_with_enough_seeds(found):
    assert counts_table(found).rows == [
        ["TNLPAD − Standard", "CIFAR-10", "1", "1", "0", "0", "+1.97", "+1.57"],
        ["TNLPAD − CDR", "CIFAR-10", "1", "0", "1", "0", "0.00", "+1.53"],
    ]


def test_a_matrix_has_a_row_for_each_method_and_decided_differences_are_bold(found):
    (matrix,) = lead_matrices(found)
    assert matrix.title == "Test accuracy under simulated noise: CIFAR-10"
    assert matrix.headings == ["difference", "symmetric 40\xa0%"]
    cells = {row[0]: row[1] for row in matrix.rows}
    # By hand: differences 2, 1.9, 2; standard error 0.0577/√3 = 0.0333.
    ahead = cells["TNLPAD − Standard"]
    assert (ahead.text, ahead.mark, ahead.below, ahead.bold) == ("+1.97 ± 0.03", "(3)", "+1.57", True)
    assert not cells["TNLPAD − CDR"].bold
    assert not cells["TNLPAD − JoCoR"].bold  # two seeds decide nothing
    assert ["TNLPAD − Standard", "CIFAR-10, symmetric 40\xa0%", "+1.97 ± 0.03 (3)", "+1.82 to +2.11", "+1.57"] in (
        intervals_table(found).rows
    )


def test_a_comparison_as_a_sentence(found):
    (lead,) = (lead for lead in found if lead.rival.cell.row == "cdr")
    # Differences 0.1, −0.1, 0.0: mean 0, standard error 0.1/√3.
    assert lead.statement == (
        "CIFAR-10, symmetric 40\xa0%: TNLPAD leads CDR by 0.00 with standard error 0.06 (n 3), where the paper has "
        "+1.53; 95 % interval −0.25 to +0.25."
    )
    assert behind_in(found) == []
    assert "behind:" not in leads_markdown(found, 2)


def test_a_method_that_is_better_is_said_to_be(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=0.8)
        write_run(tmp_path, COLUMN["cdr"], seed, accuracy=0.9 + seed / 1000)
    found = leads(tables(tmp_path))
    assert counts_table(found).rows == [["TNLPAD − CDR", "CIFAR-10", "1", "0", "0", "1", "−10.20", "+1.53"]]
    (lead,) = behind_in(found)
    assert "TNLPAD trails CDR by 10.20 with standard error 0.06 (n 3)" in lead.statement
    assert f"Where TNLPAD is decidedly behind:\n\n- {lead.statement}" in leads_markdown(found, 2)


def test_a_method_that_tnlpad_extends_is_compared_with_that_alone(tmp_path):
    for cell in cells("semi_supervised"):
        if cell.group == "cifar10/symmetric-0.4":
            write_run(tmp_path, cell, 1)
    pairs = [(lead.ours.cell.row, lead.rival.cell.row) for lead in leads(tables(tmp_path))]
    assert pairs == [("self+tnlpad", "self"), ("dividemix+tnlpad", "dividemix")]


def test_the_files_have_every_comparison(found):
    files = leads_files(found)
    rows = {row["compared_with"]: row for row in csv.DictReader(io.StringIO(files.by_suffix()["csv"]))}
    assert (rows["standard"]["n"], rows["standard"]["decided"]) == ("3", "True")
    assert (rows["jocor"]["n"], rows["jocor"]["low"]) == ("2", "")
    assert files.latex.isascii()
    assert files.latex.count(r"\begin{tabular}") == 2  # the matrix, and the counts
    assert "| TNLPAD − JoCoR | " in files.markdown
