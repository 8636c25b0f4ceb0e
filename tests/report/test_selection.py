"""Sample selection, from curves whose counts are known."""

import csv
import io

import pytest

from tests.report.drawings.conftest import record
from tnlpad.records.store import RecordError
from tnlpad.report.selection import keeping, selection_files, settings_with_selection

# Of 900 training labels 500 are right; one network keeps 600 of which 450 are right, then 480 with 432.
FIRST = {"precision": (0.5556, 0.75, 0.9), "size": (900, 600, 480)}
SECOND = {"precision": (0.5556, 0.85, 1.0), "size": (900, 500, 300)}
CHOSEN = "| method | data | chosen epoch | precision | recall | kept | n |"


def picking(method="coteaching", *, networks=None, **facts):
    """A run of a method that selects samples; its second epoch is chosen."""
    both = networks or {"first": FIRST, "second": SECOND}
    curves = {key: {name: each[key] for name, each in both.items() if key in each} for key in ("precision", "size")}
    return record(method, **curves, **facts)


def test_recall_is_of_the_right_labels_of_the_training_part():
    kept = keeping(picking())
    assert kept.precision == pytest.approx([0.5556, 0.8, 0.95])
    assert kept.recall == pytest.approx([1, (450 / 500 + 425 / 500) / 2, (432 / 500 + 300 / 500) / 2], abs=2e-4)
    assert kept.kept == pytest.approx([1, (600 + 500) / 1800, (480 + 300) / 1800])


def test_without_an_epoch_that_keeps_all_there_is_no_recall():
    kept = keeping(picking(networks={"w": {"precision": (0.6, 0.75, 0.9), "size": (890, 600, 480)}}))
    assert kept.recall == (None, None, None)
    assert kept.kept[1] == pytest.approx(600 / 900)


def test_of_an_earlier_version_there_is_precision_alone():
    kept = keeping(picking(networks={"w": {"precision": (0.6, 0.75, 0.9)}}))
    assert kept.precision == (0.6, 0.75, 0.9)
    assert kept.recall == kept.kept == (None, None, None)


def test_a_network_that_keeps_nothing_has_no_precision():
    nothing = {"precision": (0.5556, None, None), "size": (900, 0, 0)}
    kept = keeping(picking(networks={"first": FIRST, "second": nothing}))
    assert kept.precision == pytest.approx([0.5556, 0.75, 0.9])
    assert kept.recall[1:] == pytest.approx([0.9 / 2, 0.864 / 2], abs=2e-4)
    assert keeping(picking(networks={"w": nothing})).precision == (0.5556, None, None)


def test_rounding_never_makes_it_more_than_all():
    kept = keeping(picking(networks={"w": {"precision": (0.5555, 0.5563, 1.0), "size": (900, 899, 501)}}))
    assert max(kept.recall) == 1


def test_methods_without_selection_are_left_out():
    assert keeping(record("tnlpad")) is None
    assert settings_with_selection([record("tnlpad"), record("standard")]) == []


def test_a_table_by_method_and_setting(tmp_path):
    better = {"precision": (0.5556, 0.9, 0.9), "size": (900, 500, 480)}
    records = [
        picking("dividemix", noise="pairflip:0.2"),
        picking("jocor", seed=2, networks={"joint": better}),
        picking("jocor", networks={"joint": FIRST}),
        picking("coteaching"),
        picking("jocor", networks={"joint": FIRST}, settings={"epochs": 7}),
    ]
    text = selection_files(settings_with_selection(records), level=3).markdown.replace("\u00a0", " ")
    assert text.startswith("### Sample selection\n\n")
    assert text[text.index(CHOSEN) :].splitlines()[2:] == [
        "| DivideMix | CIFAR-10, pairflip 20 %, ResNet-18 | 2 | 80.0 | 87.5 | 61.1 | 1 |",
        "| Co-teaching | CIFAR-10, symmetric 40 %, ResNet-18 | 2 | 80.0 | 87.5 | 61.1 | 1 |",
        "| JoCoR | CIFAR-10, symmetric 40 %, ResNet-18 | 2 | 82.5 ± 10.6 | 90.0 ± 0.0 | 61.1 ± 7.9 | 2 |",
        "| JoCoR | CIFAR-10, symmetric 40 %, ResNet-18, epochs 7 | 2 | 75.0 | 90.0 | 66.7 | 1 |",
    ]


def test_a_quantity_that_some_seeds_lack_has_its_own_n():
    older = {"precision": (0.5556, 0.85, 0.9)}
    records = [picking("jocor", networks={"joint": FIRST}), picking("jocor", seed=2, networks={"joint": older})]
    found = settings_with_selection(records)
    assert "| 80.0 ± 7.1 | 90.0 (n 1) | 66.7 (n 1) | 2 |" in selection_files(found).markdown
    (row,) = selection_files(found).rows
    assert (row["precision_n"], row["recall_n"], row["recall_sd"], row["n"]) == (2, 1, None, 2)
    (line,) = csv.DictReader(io.StringIO(selection_files(found).by_suffix()["csv"]))
    assert (line["method"], line["precision_mean"], line["seeds"]) == ("jocor", "80.0", "1 2")


def test_missing_recall_stays_missing():
    older = {"precision": (0.6, 0.85, 0.9)}
    found = settings_with_selection([picking("jocor", networks={"joint": older})])
    assert "| 85.0 | · | · | 1 |" in selection_files(found).markdown
    assert r" & 85.0 & $\cdot$ & $\cdot$ & 1 \\" in selection_files(found).latex
    assert [selection_files(found).rows[0][f"recall_{name}"] for name in ("mean", "sd", "n")] == [None, None, 0]


def test_curves_that_cannot_be_read_are_left_out():
    def damaged():
        raise RecordError("damaged")

    good, bad = picking("jocor", seed=2), picking("jocor")
    object.__setattr__(bad, "read_curves", damaged)
    assert settings_with_selection([bad]) == []
    ((kept,),) = (setting.rows for setting in settings_with_selection([good, bad]))
    assert (kept.chosen("precision").n, kept.group.chosen.n) == (1, 2)


def test_a_chosen_epoch_beyond_the_curves_has_no_value():
    run = picking("jocor")
    run.summary["chosen"]["epoch"] = 9
    ((kept,),) = (setting.rows for setting in settings_with_selection([run]))
    assert kept.chosen("precision") is None
