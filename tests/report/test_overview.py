import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import TABLES, cells
from tnlpad.records.archive import finished_records
from tnlpad.report.leads import leads
from tnlpad.report.overview import coverage, coverage_text, headline, variants_text
from tnlpad.report.results import TITLES, table_results

GPU = {"precision": "bfloat16", "compiled": True}
COLUMN = {cell.row: cell for cell in cells("simulated") if cell.group == "cifar10/symmetric-0.4"}


def tables(path):
    return [table_results(name, finished_records([path])) for name in TITLES]


@pytest.fixture
def found(tmp_path):
    """TNLPAD is ahead of Standard in every seed."""
    for seed in (1, 2, 3):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=0.87 + seed / 100)
        write_run(tmp_path, COLUMN["standard"], seed, accuracy=0.85 + seed / 100 + (seed == 2) / 1000)
    return leads(tables(tmp_path))


def test_coverage_counts_published_cells(tmp_path):
    write_run(tmp_path, COLUMN["tnlpad"], 1)
    for seed in range(1, 6):
        write_run(tmp_path, COLUMN["standard"], seed)
    write_run(tmp_path, cells("smoke")[0], 1)  # not in the paper
    table = coverage(tables(tmp_path))
    rows = {row[0]: row[1:4] for row in table.rows}
    assert rows["all of the paper"] == [
        str(sum(len(cells(name)) for name in TABLES)),
        "4",
        "2",
    ]  # the ablation shares both
    assert rows[TABLES["simulated"]] == ["288", "2", "1"]
    assert list(rows) == [
        TABLES["simulated"],
        TABLES["ablation"],
        "all of the paper",
    ]  # tables without runs are left out
    assert coverage_text(tables(tmp_path)).startswith("4 of the 536 published cells have runs, 2 of them with")


def test_the_headline_has_n_both_numbers_and_the_lead(found):
    (row,) = headline(found).rows
    assert row[0] == "CIFAR-10, symmetric 40\xa0%"
    standard, ours, lead, interval = row[1:]
    assert (standard.text, standard.bold, standard.below) == ("87.03 ± 1.00", False, "86.26 ± 0.11 (5)")
    assert (ours.text, ours.bold, ours.mark) == ("89.00 ± 1.00", True, "(3) ≈")
    # By hand: differences 2, 1.9, 2; standard error 0.0577/√3 = 0.0333, times 4.303 = 0.143.
    assert (lead.text, lead.below) == ("+1.97 ± 0.03 (3)", "+1.57")
    assert interval == "+1.82 to +2.11"


def test_how_runs_were_computed(tmp_path, found):
    assert variants_text(group for lead in found for group in lead.groups) == ""
    write_run(tmp_path / "gpu", COLUMN["tnlpad"], 1, settings=GPU)
    (group,) = table_results("simulated", finished_records([tmp_path / "gpu"])).filled[0].groups
    assert variants_text([group]) == "Runs are bfloat16, compiled (CIFAR-10)."
