import json
import math

import pytest

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.groups import Spread, groups_of, reported, variant

CELL = next(cell for cell in cells("simulated") if cell.name == "simulated/cifar10/symmetric-0.4/tnlpad")


def recorded(out, seed, *, lacks=(), **fields):
    """A run of the cell whose recipe had other values of these fields, or no such fields at all."""
    folder = write_run(out, CELL, seed)
    summary = folder.summary()
    for part in (summary["config"], summary["config"]["options"]):
        part.update({name: value for name, value in fields.items() if name in part})
        for name in lacks:
            part.pop(name, None)
    folder.summary_file.write_text(json.dumps(summary))
    folder.config_file.write_text(json.dumps(summary["config"]))
    (record,) = finished_records([folder.path])
    return record


# Numbers


def test_the_standard_deviation_is_that_of_the_sample():
    spread = Spread.of([0.90, 0.92, 0.97])
    assert spread.n == 3
    assert spread.mean == pytest.approx(93)
    assert spread.sd == pytest.approx(math.sqrt((9 + 1 + 16) / 2))


def test_one_seed_has_none():
    assert Spread.of([0.5]) == Spread(mean=50.0, sd=None, n=1)


def test_numbers_of_a_group_by_hand(tmp_path):
    """Each number comes from its own epoch; memorisation is that of σ."""
    records = [recorded(tmp_path, seed) for seed in (10, 2)]
    for record, (epoch, chosen, last, memorised) in zip(records, [(3, 0.9, 0.6, 0.3), (5, 0.8, 0.7, 0.1)], strict=True):
        record.summary["chosen"] |= {"epoch": epoch, "test_accuracy": chosen, "judged": {"sigma": {"memorised": 0}}}
        judged = {"sigma": {"memorised": memorised}, "w": {"memorised": 0.9}}
        record.summary["last"] |= {"epoch": 6, "test_accuracy": last, "judged": judged}
    (group,) = groups_of(records)
    assert group.seeds == (2, 10)  # numbers, not words
    assert group.chosen == Spread.of([0.8, 0.9])
    assert group.last == Spread.of([0.7, 0.6])
    assert group.memorised == Spread.of([0.1, 0.3])
    assert group.epochs == (3, 5)


# Which runs belong together


def test_two_networks_are_reported_by_their_mean(tmp_path):
    cell = next(cell for cell in cells("simulated") if cell.method == "coteaching")
    write_run(tmp_path, cell, 1, memorised=0.5)
    (group,) = groups_of(finished_records([tmp_path]))
    assert group.memorised == Spread.of([0.5])
    assert reported(["first", "second"]) == ["first", "second"]
    assert reported(["sigma", "w"]) == ["sigma"]
    assert reported(["w", "sigma"]) == ["w"]  # the authors' protocol judges by w
    assert reported(["w"]) == ["w"]


def test_which_runs_follow_the_paper_to_the_last_epoch(tmp_path):
    ways = {"plain": {}, "authors": {"protocol": "authors"}, "impatient": {"patience": 10}}
    groups = {name: groups_of([recorded(tmp_path / name, 1, **way)])[0] for name, way in ways.items()}
    assert {name: group.follows_paper for name, group in groups.items()} == {
        "plain": True,
        "authors": False,
        "impatient": False,
    }


def test_variant_in_words():
    config = {"protocol": "paper", "precision": "float32", "compiled": False, "patience": None}
    assert variant(config) == ()
    assert variant({"protocol": "paper"}) == ()
    assert variant({**config, "precision": "bfloat16", "patience": 3}) == ("bfloat16", "patience 3")


def seeds(groups):
    return {group.label: group.seeds for group in groups}


@pytest.mark.parametrize("most", ["old", "new"])
def test_runs_of_different_recipes_form_labelled_groups(tmp_path, most):
    three, one = (1, 2, 3), (4,)
    new = [recorded(tmp_path / "new", seed) for seed in (three if most == "new" else one)]
    old = [recorded(tmp_path / "old", seed, c2=0.9, weight_decay=0.5) for seed in (three if most == "old" else one)]
    groups = groups_of([*new, *old])
    assert len(groups[0].records) == 3
    assert seeds(groups) == {
        "weight_decay=0.001, c2=0.6": tuple(record.config["seed"] for record in new),
        "weight_decay=0.5, c2=0.9": tuple(record.config["seed"] for record in old),
    }


def test_another_rule_of_selection_is_not_mixed_either(tmp_path):
    one, two = recorded(tmp_path, 1), recorded(tmp_path, 2)
    two.summary["selection"] = "last epoch"
    assert seeds(groups_of([one, two])) == {
        "epoch chosen by: first epoch of the highest noisy validation accuracy": (1,),
        "epoch chosen by: last epoch": (2,),
    }


def test_a_field_that_came_later_has_the_recipes_value(tmp_path):
    old = recorded(tmp_path, 1, lacks=("validation", "subset", "norm"))
    (group,) = groups_of([old, recorded(tmp_path, 2), recorded(tmp_path, 3)])
    assert (group.label, group.seeds) == ("", (1, 2, 3))


def test_records_from_before_variants_have_the_default(tmp_path):
    """Even if all records that have the field are variants."""
    old = recorded(tmp_path / "old", 1, lacks=("precision", "compiled", "patience"))
    others = [write_run(tmp_path / "new", CELL, seed, settings={"precision": "bfloat16"}) for seed in (2, 3)]
    groups = groups_of([old, *finished_records([folder.path for folder in others])])
    assert seeds(groups) == {"": (1,), "bfloat16": (2, 3)}


def test_a_field_that_came_later_and_then_changed_parts_them(tmp_path):
    records = [recorded(tmp_path / "a", 1, lacks=("cutout",)), recorded(tmp_path / "b", 2, cutout=4)]
    groups = groups_of([*records, recorded(tmp_path / "c", 3)])
    assert seeds(groups) == {"recorded without cutout": (1,), "cutout=4": (2,), "cutout=0": (3,)}


def test_no_seed_counts_twice(tmp_path):
    """The same run, recorded by an earlier version and again by this one."""
    old = [recorded(tmp_path / "old", seed, lacks=("validation", "norm")) for seed in (1, 2, 3)]
    new = [recorded(tmp_path / "new", seed) for seed in (1, 2)]
    assert seeds(groups_of([*new, *old])) == {
        "recorded without validation, recorded without norm": (1, 2, 3),
        "": (1, 2),
    }
