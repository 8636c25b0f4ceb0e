from dataclasses import replace
from datetime import date

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.records.store import RecordError
from tnlpad.report.paper_table_files import paper_table_files
from tnlpad.report.remarks import FILE, HEADINGS, Remark, check_remarks, outside, read_remarks
from tnlpad.report.results import table_results

COLUMN = {cell.row: cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"}
NAME = "simulated/mnist/symmetric-0.2/tnlpad"
REMARK = Remark(date=date(2026, 1, 31), text="The runs are short.")


@pytest.fixture
def table(tmp_path):
    """TNLPAD is four points below the paper, and Standard agrees with it."""
    for seed in (1, 2, 3):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=0.95 + seed / 10_000)
        write_run(tmp_path, COLUMN["standard"], seed, accuracy=0.9895 + seed / 10_000)
    return table_results("simulated", finished_records([tmp_path]))


def test_a_cell_outside_has_a_row_and_its_remark(table):
    (each,) = outside(table.entries, {NAME: REMARK})
    cells = dict(zip(HEADINGS, each.cells, strict=True))
    assert cells == {
        "method": "TNLPAD, symmetric 20\xa0%",
        "ours (n)": "95.02 ± 0.01 (3)",
        "paper (n)": "99.02 ± 0.07 (5)",
        "difference": "−4.00",
        "two standard errors": "0.06",  # by hand: 2·√(0.01²/3 + 0.07²/5) = 0.0637
        "epochs chosen": "4",
        "at the last epoch": "80.00",
        "epochs within": "none of 6",
    }
    assert each.sentence == "TNLPAD, symmetric 20\xa0%: The runs are short. (2026-01-31)"


@pytest.mark.parametrize(
    ("accuracies", "words"),
    [
        ((0.95, 0.95, 0.95, 0.95, 0.998, 0.9902), "1 of 6: 6"),
        ((0.9902, 0.9902, 0.95, 0.9902, 0.95, 0.998), "3 of 6: 1–2, 4"),
        ((0.9902, 0.95) * 5 + (0.998,), "5 of 11: between 1 and 9"),
    ],
)
def test_it_says_at_how_many_epochs_the_runs_agree_with_the_paper(table, accuracies, words):
    (each,) = outside(table.entries, {})
    records = tuple(
        replace(record, read_curves=lambda record=record: replace(record.curves, test_accuracy=accuracies))
        for record in each.group.records
    )
    assert replace(each, group=replace(each.group, records=records)).epochs_within == words


def test_it_does_without_curves_that_cannot_be_read(table):
    def unreadable():
        raise RecordError("damaged")

    (each,) = outside(table.entries, {})
    records = tuple(replace(record, read_curves=unreadable) for record in each.group.records)
    assert replace(each, group=replace(each.group, records=records)).cells[-2:] == ["80.00", "unknown"]


def test_remarks_on_our_method_are_shown_below_the_table_and_the_rest_is_folded(tmp_path, table):
    for seed in (1, 2, 3):
        write_run(tmp_path, COLUMN["cdr"], seed, accuracy=0.95 + seed / 10_000)
    table = table_results("simulated", finished_records([tmp_path]))
    text = paper_table_files(table, remarks={NAME: REMARK, NAME.replace("tnlpad", "cdr"): REMARK}).markdown
    folded = text.index("MNIST, outside two standard errors of the paper: 2")
    assert text.index("- TNLPAD, symmetric") < folded < text.index("0 above the paper, 2 below.")
    assert text.index("| CDR, symmetric") < text.index("| TNLPAD, symmetric") < text.index("- CDR, symmetric")
    assert text.count("The runs are short.") == 2


def test_remarks_are_read_by_cell(tmp_path):
    assert read_remarks(tmp_path) == {}
    (tmp_path / FILE).write_text(f'["{NAME}"]\ndate = 2026-01-31\ntext = "The runs are short."\n')
    assert read_remarks(tmp_path) == {NAME: REMARK}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("= 3", "cannot be read"),
        ('["a"]\ntext = "why"', "a needs the fields date and text"),
        ('["a"]\ndate = 2026-01-31\ntext = "why"\nby = "me"', "and no others"),
        ('["a"]\ndate = "today"\ntext = "why"', "date of a is 'today'"),
        ('["a"]\ndate = 2026-01-31\ntext = ""', "text of a is ''"),
        ("a = 3", "a needs the fields"),
    ],
)
def test_a_remark_that_cannot_be_used_is_named(tmp_path, text, wanted):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(RecordError, match=wanted):
        read_remarks(tmp_path)


def test_a_remark_on_a_cell_that_is_inside_again_is_named(table):
    check_remarks({NAME: REMARK}, [table])
    inside = "simulated/mnist/symmetric-0.2/standard"
    for name, wanted in ((inside, f"{inside} is not outside"), ("simulated/mnist/nowhere/tnlpad", "there is no cell")):
        with pytest.raises(RecordError, match=wanted):
            check_remarks({NAME: REMARK, name: REMARK}, [table])
