import math
from types import SimpleNamespace

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import TABLES, Experiment, Published, cells
from tnlpad.records.archive import finished_records
from tnlpad.report.groups import Spread
from tnlpad.report.results import TITLES, Comparison, Entry, compare, other_runs, table_results, verdict

CELL = next(cell for cell in cells("simulated") if cell.name == "simulated/cifar10/symmetric-0.4/tnlpad")
ROWS = {cell.row: cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"}
GPU = {"precision": "bfloat16", "compiled": True}


def entry_of(table, cell):
    return next(entry for entry in table.entries if entry.cell == cell)


# Numbers


def test_the_bound_is_two_standard_errors_of_the_difference():
    """By hand: 2·√(0.3²/4 + 0.4²/5) = 2·√(0.0225 + 0.032)."""
    comparison = compare(Spread(mean=90.0, sd=0.3, n=4), Published(mean=90.4, std=0.4, n=5))
    assert comparison.difference == pytest.approx(-0.4)
    assert comparison.bound == pytest.approx(2 * math.sqrt(0.0545))
    assert comparison.within is True
    assert comparison.unknown is None
    assert compare(Spread(mean=90.9, sd=0.3, n=4), Published(mean=90.4, std=0.4, n=5)).within is False


def test_exactly_on_the_bound_is_within():
    published = Published(mean=90.0, std=1.0, n=4)
    assert compare(Spread(mean=91.0, sd=0.0, n=2), published).within is True


@pytest.mark.parametrize(
    ("ours", "published", "reason"),
    [
        (Spread(mean=90, sd=None, n=1), Published(mean=90, std=0.1, n=5), "we have one seed"),
        (Spread(mean=90, sd=0.1, n=5), Published(mean=90, std=None, n=1), "the paper gives no standard deviation"),
        (Spread(mean=90, sd=0.1, n=5), Published(mean=90, std=0.1, n=None), "the paper does not say n"),
        (
            Spread(mean=90, sd=None, n=1),
            Published(mean=90, std=None, n=None),
            "we have one seed and the paper gives no standard deviation",
        ),
    ],
)
def test_unknown_agreement_has_a_reason(ours, published, reason):
    comparison = compare(ours, published)
    assert (comparison.within, comparison.bound, comparison.unknown) == (None, None, reason)
    assert comparison.difference == 0


@pytest.mark.parametrize(
    ("difference", "bound", "unknown", "text", "mark"),
    [
        (0.31, 0.42, None, "yes: 0.31 ≤ 0.42", "≈"),
        (-0.31, 0.42, None, "yes: 0.31 ≤ 0.42", "≈"),
        (0.71, 0.42, None, "no: 0.71 > 0.42", "▲"),
        (-0.71, 0.42, None, "no: 0.71 > 0.42", "▼"),
        (0.71, None, "we have one seed", "unknown: we have one seed", "?"),
    ],
)
def test_agreement_as_text_and_mark(difference, bound, unknown, text, mark):
    comparison = Comparison(difference=difference, bound=bound, unknown=unknown)
    assert (comparison.text, comparison.mark) == (text, mark)


@pytest.mark.parametrize(("n", "text"), [(1, "1 of 5"), (4, "4 of 5"), (5, "5"), (7, "7")])
def test_how_many_seeds_are_missing(n, text):
    entry = Entry(cell=CELL, groups=())
    assert entry.cell.trials == 5
    assert entry.n_text(SimpleNamespace(chosen=Spread(mean=50.0, sd=None, n=n))) == text


# Runs into cells


def test_seeds_of_a_cell_are_averaged(tmp_path):
    for seed, accuracy in ((2, 0.88), (1, 0.86)):
        write_run(tmp_path, CELL, seed, accuracy=accuracy, last=0.80, memorised=0.2)
    table = table_results("simulated", finished_records([tmp_path]))
    entry = entry_of(table, CELL)
    (group,) = entry.groups
    assert group.chosen == Spread.of([0.86, 0.88])
    assert group.last == Spread.of([0.8, 0.8])
    assert group.memorised == Spread.of([0.2, 0.2])  # of σ, not of w, which has twice as much
    assert group.seeds == (1, 2)
    assert group.epochs == (4, 4)
    assert group.label == ""
    assert not entry.complete
    assert table.filled == (entry,)
    assert len(table.comparisons) == 1
    assert table.selection == "first epoch of the highest noisy validation accuracy"


VARIANTS = {
    "": {},
    "bfloat16, compiled": {"settings": GPU},
    "compiled": {"settings": {"compiled": True}},
    "patience 10": {"settings": {"patience": 10}},
    "bfloat16, compiled, patience 10": {"settings": {**GPU, "patience": 10}},
    "protocol authors": {"protocol": "authors"},
    "protocol authors, bfloat16, compiled": {"protocol": "authors", "settings": GPU},
}


def test_variants_are_never_mixed(tmp_path):
    for number, options in enumerate(VARIANTS.values()):
        for seed in (1, 2):
            write_run(tmp_path, CELL, seed, accuracy=0.8 + number / 100, **options)
    entry = entry_of(table_results("simulated", finished_records([tmp_path])), CELL)
    assert {group.label for group in entry.groups} == set(VARIANTS)
    for group in entry.groups:
        number = list(VARIANTS).index(group.label)
        assert group.chosen == Spread.of([0.8 + number / 100] * 2)


def test_a_cell_is_complete_by_the_papers_protocol_alone(tmp_path):
    cell = next(cell for cell in cells("simulated") if cell.row == "tnlpad")
    for seed in range(1, 6):
        write_run(tmp_path, cell, seed, settings={"patience": 3})
    entry = entry_of(table_results("simulated", finished_records([tmp_path])), cell)
    assert entry.groups[0].chosen.n == 5
    assert not entry.complete
    for seed in range(1, 6):
        write_run(tmp_path, cell, seed)
    assert entry_of(table_results("simulated", finished_records([tmp_path])), cell).complete


def test_the_group_with_most_seeds_comes_first(tmp_path):
    write_run(tmp_path, CELL, 1)
    for seed in (1, 2):
        write_run(tmp_path, CELL, seed, settings=GPU)
    entry = entry_of(table_results("simulated", finished_records([tmp_path])), CELL)
    assert [group.label for group in entry.groups] == ["bfloat16, compiled", ""]


def test_other_settings_make_another_experiment(tmp_path):
    write_run(tmp_path, CELL, 1, settings={"c2": 0.3})
    write_run(tmp_path, CELL, 1)
    records = finished_records([tmp_path])
    assert len(entry_of(table_results("simulated", records), CELL).groups) == 1
    ((group,),) = other_runs(records)
    assert group.records[0].settings == {"c2": 0.3}


def test_the_same_runs_may_serve_several_tables(tmp_path):
    cell = next(cell for cell in cells("ablation") if cell.row == "decomposition+gamma+sigma")
    write_run(tmp_path, cell, 1)
    records = finished_records([tmp_path])
    assert len(table_results("ablation", records).filled) == len(table_results("simulated", records).filled) == 1
    assert other_runs(records) == []


@pytest.mark.parametrize("name", TITLES)
def test_runs_in_a_table_are_not_other_runs(tmp_path, name):
    """Including the smoke grid."""
    write_run(tmp_path, cells(name)[0], 1)
    assert other_runs(finished_records([tmp_path])) == []


def test_rows_of_the_ablation_have_their_own_runs(tmp_path):
    rows = [cell for cell in cells("ablation") if cell.group == "cifar10/symmetric-0.2"]
    for number, cell in enumerate(rows):
        write_run(tmp_path, cell, 1, accuracy=0.5 + number / 10, last=0.4)
    table = table_results("ablation", finished_records([tmp_path]))
    assert [round(entry_of(table, cell).groups[0].chosen.mean) for cell in rows] == [50, 60, 70, 80]


def test_every_table_has_cells_and_commands_that_select_them():
    from tnlpad.grid.reproduce import select

    assert set(TITLES) == {*TABLES, "smoke"}
    for name in TITLES:
        table = table_results(name, [])
        assert table.filled == ()
        for entry in table.entries:
            words = entry.command.split()
            assert words[:3] == ["tnlpad", "reproduce", name]
            place, method = words[words.index("--only") + 1], words[words.index("--methods") + 1]
            assert entry.cell in select(cells(name), only=[place], methods=[method])


def test_a_run_of_no_table(tmp_path):
    write_run(tmp_path, Experiment(dataset="digits", noise="pairflip:0.3", method="cdr"), 1)
    records = finished_records([tmp_path])
    assert all(not table_results(name, records).filled for name in TITLES)
    assert len(other_runs(records)) == 1


# The verdict


@pytest.mark.parametrize(
    ("accuracies", "sentence"),
    [
        ((0.9902, 0.9903), "1 of 1 comparison with a published number is within two standard errors."),
        ((0.95, 0.951), "0 of 1 comparison with a published number are within two standard errors, 1 below."),
        ((0.9902,), "For 1 this is unknown: we have one seed"),
    ],
)
def test_the_verdict_says_what_happened(tmp_path, accuracies, sentence):
    for seed, value in enumerate(accuracies, start=1):
        write_run(tmp_path, ROWS["tnlpad"], seed, accuracy=value)
    records = finished_records([tmp_path])
    assert verdict([table_results(name, records) for name in TITLES]).startswith(sentence)


def test_nothing_to_compare():
    assert verdict([table_results("simulated", [])]).startswith("None of these runs")


def test_above_and_below(tmp_path):
    for row, accuracy in (("tnlpad", 0.95), ("standard", 0.9995)):
        for seed in (1, 2):
            write_run(tmp_path, ROWS[row], seed, accuracy=accuracy + seed / 10_000)
    assert (
        verdict([table_results("simulated", finished_records([tmp_path]))])
        == "0 of 2 comparisons with a published number are within two standard errors, 1 above, 1 below."
    )
