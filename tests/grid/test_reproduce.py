import json

import pytest

import tnlpad.grid.reproduce as reproducing
from tnlpad.data.files import default_root
from tnlpad.errors import DataError
from tnlpad.grid.reproduce import (
    TITLES,
    PlannedStatus,
    absent_datasets,
    computed_beside,
    experiments,
    left_to_run,
    plan,
    plan_status,
    select,
)
from tnlpad.paper.cells import FIGURES, SMOKE, TABLES
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import RunConfig, configure, departures
from tnlpad.runs.run import run

SMALL = {"epochs": 2, "batch_size": 256}


def runs(target, **options):
    return plan(experiments(target), **options)


# What to run


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("simulated", 1440),
        ("high_noise", 270),
        ("networks", 540),
        ("real_world", 9 * (4 * 5 + 2)),  # Food-101 and Clothing1M once, as in the paper
        ("semi_supervised", 80),
        ("ablation", 80),
        ("c2_noise", 405),
        ("beta2_families", 72),
        ("beta", 0),
        ("datasets", 0),
    ],
)
def test_how_many_runs(target, count):
    planned = runs(target)
    assert len(planned) == count
    names = [each.run_id for each in planned]
    assert len(set(names)) == len(names)


def test_with_seeds_given_there_is_a_run_for_each():
    assert len(runs("simulated", seeds=range(1, 6))) == 1440
    assert len(runs("real_world", seeds=[1, 2])) == 2 * 54
    assert len(runs("ablation", seeds=[3, 3])) == 16  # a seed given twice counts once


def test_a_run_serves_every_cell_that_needs_it():
    every = {each.run_id: each for each in runs("all", seeds=[1])}
    by_cell = {name: each for each in every.values() for name in each.serves}
    shared = by_cell["simulated/cifar10/symmetric-0.4/tnlpad"]
    assert set(shared.serves) == {
        "simulated/cifar10/symmetric-0.4/tnlpad",
        "ablation/cifar10/symmetric-0.4/decomposition+gamma+sigma",
        "c2_noise/cifar10/symmetric-0.4/0.6",
        "beta2_families/cifar10/symmetric-0.4/power",
        "memorisation/cifar10/symmetric-0.4/tnlpad",
        "norms/cifar10/symmetric-0.4/tnlpad",
    }
    assert by_cell.keys() == {each.name for each in experiments("all")}


def test_a_cell_with_fewer_trials_is_served_by_fewer_seeds():
    serves = {
        each.seed: each.serves
        for each in runs("all")
        if each.experiment.name == "simulated/fashion_mnist/symmetric-0.2/tnlpad"
    }
    assert "beta2_families/fashion_mnist/symmetric-0.2/power" in serves[3]
    assert "beta2_families/fashion_mnist/symmetric-0.2/power" not in serves[4]


def test_all_cells_get_their_first_seed_before_any_gets_its_second():
    seeds = [each.seed for each in runs("simulated")]
    assert seeds == sorted(seeds)
    assert runs("simulated")[0].serves == ("simulated/mnist/symmetric-0.2/standard",)


def test_a_run_is_the_one_that_the_words_mean():
    (planned,) = plan(
        select(experiments("networks"), only=["cifar100/vgg19/symmetric-0.4"], methods=["jocor"]),
        seeds=[4],
        protocol="authors",
        settings={"patience": "7"},
        device="cuda",
    )
    assert planned.config == configure(
        "cifar100",
        noise="symmetric:0.4",
        protocol="authors",
        method="jocor",
        network="vgg19",
        seed=4,
        settings={"patience": 7, "precision": "bfloat16", "compiled": True},
    )
    assert planned.run_id == planned.config.run_id


def test_seeds_make_the_same_run_as_configuring_each():
    for each in runs("smoke"):
        own = departures(each.config)
        words = {key: getattr(each.config, key) for key in ("noise", "protocol", "method", "network", "seed")}
        again = configure(each.config.dataset, settings=own, **words)
        assert isinstance(again, RunConfig)
        assert again.run_id == each.run_id


def test_smoke_has_every_method_and_figure():
    planned = runs("smoke")
    served = {name.split("/")[0] for each in planned for name in each.serves}
    assert served == {SMOKE, "c2_noise", "beta2_families", "memorisation", "norms"}
    assert {each.seed for each in planned} == {1, 2}
    assert set(computed_beside(SMOKE)) == {"tsne", "parameter_space"}


# Choosing and refusing


@pytest.mark.parametrize(
    ("target", "only", "count"),
    [
        ("simulated", ["cifar10/symmetric-0.4"], 9),
        ("simulated", ["cifar10/symmetric:0.4"], 9),
        ("simulated", ["cifar10"], 72),
        ("simulated", ["cifar10/"], 72),
        ("simulated", ["symmetric-0.4"], 36),
        ("simulated", ["mnist", "cifar10/pairflip-0.2"], 72 + 9),
        ("networks", ["cifar10/symmetric-0.4"], 27),
        ("networks", ["vgg19"], 36),
        ("real_world", ["cifar10n-worse"], 9),
        ("real_world", ["cifar10n"], 36),
        ("c2_noise", ["mnist/symmetric"], 25),
        ("c2_noise", ["mnist/symmetric-0.2"], 5),
    ],
)
def test_only(target, only, count):
    assert len(select(experiments(target), only=only)) == count


def test_methods_are_rows_or_methods():
    ablation = experiments("ablation")
    assert len(select(ablation, methods=["decomposition+gamma"])) == 4
    assert len(select(ablation, methods=["tnlpad"])) == 12
    assert len(select(experiments("beta2_families"), methods=["linear", "standard"])) == 8


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("simulated", {"only": ["cifar11"]}, r"did you mean cifar10\? There are: mnist, .* as mnist/symmetric-0.2"),
        ("simulated", {"only": ["cifar10/symmetric-0.3"]}, "selects nothing"),
        ("simulated", {"only": ["cifar11/symmetric-0.4"]}, r"did you mean cifar10\?"),
        ("simulated", {"methods": ["tnlpat"]}, "did you mean tnlpad"),
        ("beta2_families", {"only": ["cifar10"], "methods": ["cdr"]}, "--methods cdr selects nothing"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(target, options, message):
    with pytest.raises(ValueError, match=message):
        select(experiments(target), **options)


def test_of_what_has_no_runs_nothing_is_selected():
    assert select(experiments("datasets")) == []


def test_a_place_and_a_method_that_never_meet():
    every = [*experiments("ablation"), *experiments("real_world")]
    with pytest.raises(ValueError, match="nothing in common"):
        select(every, only=["food101"], methods=["decomposition"])


def test_unknown_targets_get_the_nearest_name():
    with pytest.raises(ValueError, match=r"did you mean simulated\? There are: datasets, simulated, .*all"):
        experiments("simulatd")
    assert {*TABLES, *FIGURES, SMOKE, "all", "datasets"} == TITLES.keys()


def test_a_setting_in_which_cells_differ_is_refused():
    rows = select(experiments("ablation"), methods=["tnlpad"])
    with pytest.raises(ValueError, match=r"/decomposition and ablation/.*/decomposition\+gamma are the same run"):
        plan(rows, settings={"gamma_constraint": "false"}, seeds=[1])


def test_a_setting_that_some_have_not_names_one_of_them():
    with pytest.raises(ValueError, match=r"simulated/mnist/symmetric-0.2/standard: 'c2' is not a setting"):
        runs("simulated", settings={"c2": "0.3"})


# How it stands


def test_plan_status(tmp_path):
    chosen = select(experiments(SMOKE), only=["symmetric-0.4"], methods=["decomposition"])
    planned = plan(chosen, settings=SMALL)
    assert [each.state for each in plan_status(planned, tmp_path, "cpu")] == ["missing", "missing"]
    run(planned[0].config, tmp_path)
    done, missing = plan_status(planned, tmp_path, "cpu")
    assert (done.state, done.seconds_left, done.known_from) == ("done", None, None)
    assert (missing.state, missing.known_from) == ("missing", "like runs")
    assert missing.seconds_left == pytest.approx(
        json.loads((tmp_path / planned[0].run_id / "summary.json").read_text())["seconds"]["epochs"]
    )
    assert left_to_run([done, missing]) == [planned[1].config]


def test_what_has_begun_has_less_to_go_and_what_is_damaged_says_why(tmp_path):
    planned = plan(experiments(SMOKE)[:1], settings=SMALL, seeds=[1, 2, 3])
    run(planned[0].config, tmp_path)
    for each in planned[1:]:
        RunFolder(tmp_path / each.run_id).begin(each.config.to_json())
    RunFolder(tmp_path / planned[1].run_id).append_epoch({"epoch": 1, "validation_accuracy": 0.5, "test_accuracy": 0.5})
    RunFolder(tmp_path / planned[2].run_id).summary_file.write_text("{")
    done, begun, damaged = plan_status(planned, tmp_path, "cpu")
    whole = RunFolder(tmp_path / planned[0].run_id).summary()["seconds"]["epochs"]
    assert (begun.state, begun.seconds_left) == ("begun", pytest.approx(whole / 2))  # one of two epochs
    assert (damaged.state, damaged.seconds_left) == ("damaged", pytest.approx(whole))  # is run again from the start
    assert "is damaged" in damaged.problem
    assert (done.problem, begun.problem) == (None, None)


def test_runs_that_share_a_gpu_take_longer_each(tmp_path):
    planned = plan(select(experiments("simulated"), only=["mnist"], methods=["standard"]), seeds=[1], device="cuda")
    alone, shared = (plan_status(planned[:1], tmp_path, "cuda", at_once)[0].seconds_left for at_once in (1, 20))
    assert shared > alone


def test_absent_datasets(tmp_path):
    configs = [configure(name) for name in ("digits", "mnist", "mnist", "cifar10n")]
    absent = absent_datasets(configs, tmp_path)
    assert absent.keys() == {"mnist", "cifar10n"}
    assert "tnlpad data get mnist" in absent["mnist"]
    assert "tnlpad data get cifar10n" in absent["cifar10n"]  # before the images that it lacks as well


def test_a_dataset_whose_images_are_anothers_needs_both(tmp_path, monkeypatch):
    def only_labels(info, root):
        if info.name == "cifar10":
            raise DataError(f"no images in {root}")

    monkeypatch.setattr(reproducing, "require_layout", only_labels)
    for root, place in ((tmp_path, tmp_path), (None, default_root())):
        assert absent_datasets([configure("cifar10n")], root) == {"cifar10n": f"no images in {place}"}


def test_what_is_damaged_is_left_to_run_so_that_someone_is_told(tmp_path):
    planned = plan(experiments(SMOKE)[:1], seeds=[1, 2, 3])
    states = ("done", "damaged", "running")
    seen = [PlannedStatus(planned=each, state=state) for each, state in zip(planned, states, strict=True)]
    assert left_to_run(seen) == [each.config for each in planned[1:]]


def test_every_word_reaches_the_runs():
    """What is set for all comes over what a cell sets, and that over what goes with the device."""
    cell = next(each for each in experiments("simulated") if each.method == "tnlpad")
    (plain,) = plan([cell], protocol="authors", seeds=[7, 7], device="cuda")
    words = {"noise": cell.noise, "protocol": "authors", "method": "tnlpad", "network": cell.network, "seed": 7}
    assert plain.config == configure(cell.dataset, device="cuda", **words)
    (changed,) = plan([cell], protocol="authors", seeds=[7], settings={"compiled": False}, device="cuda")
    assert changed.config == configure(cell.dataset, device="cuda", settings={"compiled": False}, **words)


# What is computed beside the runs


def test_figures_that_are_computed_beside_the_runs():
    assert computed_beside("tsne") == ["tsne"]
    assert computed_beside("all") == computed_beside(SMOKE) == ["tsne", "parameter_space"]
    assert computed_beside("simulated") == []
