import csv
import io

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import TABLES, cells
from tnlpad.records.archive import finished_records
from tnlpad.report.overview import (
    coverage,
    coverage_text,
    headline,
    leads,
    not_ahead,
    paired_files,
    variants_text,
    verdicts,
)
from tnlpad.report.results import TITLES, table_results

GPU = {"precision": "bfloat16", "compiled": True}
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


def test_coverage_counts_published_cells(tmp_path):
    write_run(tmp_path, COLUMN["tnlpad"], 1)
    for seed in range(1, 6):
        write_run(tmp_path, COLUMN["standard"], seed)
    write_run(tmp_path, cells("smoke")[0], 1)  # not in the paper
    table = coverage(tables(tmp_path))
    rows = {row[0]: row[1:4] for row in table.rows}
    assert rows["all"] == [str(sum(len(cells(name)) for name in TABLES)), "4", "2"]  # the ablation shares both
    assert rows[TABLES["simulated"]] == ["288", "2", "1"]
    assert len(table.rows) == len(TABLES) + 1
    assert coverage_text(tables(tmp_path)).startswith("4 of the 536 published cells have runs, 2 of them with")


def test_tnlpad_is_compared_with_each_method_once(found):
    """The ablation has the same runs of both."""
    assert sorted(lead.rival.cell.row for lead in found) == ["cdr", "jocor", "standard"]
    (standard,) = (lead for lead in found if lead.rival.cell.row == "standard")
    assert standard.paired.difference == pytest.approx(5.9 / 3)
    assert standard.published == pytest.approx(87.83 - 86.26)


def test_the_headline_has_n_both_numbers_and_the_lead(found):
    (row,) = headline(found).rows
    assert row[0] == "CIFAR-10, symmetric 40\xa0%"
    standard, ours, lead, interval = row[1:]
    assert (standard.text, standard.bold, standard.below) == ("87.03 ± 1.00", False, "86.26 ± 0.11 (5)")
    assert (ours.text, ours.bold, ours.mark) == ("89.00 ± 1.00", True, "(3) ≈")
    # By hand: differences 2, 1.9, 2; standard error 0.0577/√3 = 0.0333, times 4.303 = 0.143.
    assert (lead.text, lead.below) == ("+1.97 ± 0.03 (3)", "+1.57")
    assert interval == "+1.82 to +2.11"


def test_statements_say_where_the_lead_is_not_decided(found):
    assert verdicts(found) == [
        "TNLPAD against Standard, 1 column: ahead in 1.",
        "TNLPAD against CDR, 1 column: ahead in 0, not decided in 1.",
    ]
    (statement,) = not_ahead(found)
    # Differences 0.1, −0.1, 0.0: mean 0, standard error 0.1/√3.
    assert statement == (
        "CIFAR-10, symmetric 40\xa0%: TNLPAD leads CDR by 0.00 with standard error 0.06 (n 3), where the paper has "
        "+1.53; not decided, 95 % interval −0.25 to +0.25."
    )


def test_a_method_that_is_better_is_said_to_be(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=0.8)
        write_run(tmp_path, COLUMN["cdr"], seed, accuracy=0.9 + seed / 1000)
    found = leads(tables(tmp_path))
    assert verdicts(found) == ["TNLPAD against CDR, 1 column: ahead in 0, behind in 1."]
    assert "TNLPAD trails CDR by 10.20 with standard error 0.06 (n 3)" in not_ahead(found)[0]
    assert "not decided" not in not_ahead(found)[0]


def test_a_method_that_tnlpad_extends_is_compared_with_that_alone(tmp_path):
    for cell in cells("semi_supervised"):
        if cell.group == "cifar10/symmetric-0.4":
            write_run(tmp_path, cell, 1)
    pairs = [(lead.ours.cell.row, lead.rival.cell.row) for lead in leads(tables(tmp_path))]
    assert pairs == [("self+tnlpad", "self"), ("dividemix+tnlpad", "dividemix")]


def test_the_files_have_every_comparison(found):
    files = paired_files(found)
    rows = {row["compared_with"]: row for row in csv.DictReader(io.StringIO(files.by_suffix["csv"]))}
    assert (rows["standard"]["n"], rows["standard"]["decided"]) == ("3", "True")
    assert (rows["jocor"]["n"], rows["jocor"]["low"]) == ("2", "")
    assert files.latex.isascii()
    assert "| Standard | CIFAR-10, symmetric 40\xa0% | TNLPAD | +1.97 ± 0.03 (3) | +1.82 to +2.11 | +1.57 |" in (
        files.markdown
    )


def test_how_runs_were_computed(tmp_path, found):
    assert variants_text(group for lead in found for group in lead.groups) == ""
    write_run(tmp_path / "gpu", COLUMN["tnlpad"], 1, settings=GPU)
    (group,) = table_results("simulated", finished_records([tmp_path / "gpu"])).filled[0].groups
    assert variants_text([group]) == "Runs are bfloat16, compiled (CIFAR-10)."
