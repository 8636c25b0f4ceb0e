import dataclasses
import json
from itertools import product
from pathlib import Path

import pytest

from tnlpad.data.own import DataShape
from tnlpad.methods import METHODS
from tnlpad.runs.config import configure
from tnlpad.runs.recipes import DATASET_DEFAULTS, OWN_C2, dataset_defaults, image_size, own_recipe, scoring_interval
from tnlpad.runs.run import run

SEMI_SUPERVISED = ("self", "self+tnlpad", "dividemix", "dividemix+tnlpad")


def options(method, noise="symmetric:0.4", dataset="cifar10"):
    return configure(dataset, noise=noise, method=method).options


def test_self_on_cifar_has_iterations_of_100_and_40_epochs():
    config = configure("cifar10", noise="symmetric:0.4", method="self")
    assert (config.epochs, config.milestones, config.batch_size) == (220, (40, 80), 64)
    assert config.options["iterations"] == 4
    assert config.options["first_share"] * 220 == pytest.approx(100, abs=0.1)


def test_dividemix_on_cifar_is_run_as_its_authors_do():
    config = configure("cifar10", noise="symmetric:0.4", method="dividemix+tnlpad")
    assert (config.epochs, config.milestones, config.batch_size) == (300, (151,), 128)
    assert (config.learning_rate, config.weight_decay) == (0.02, 5e-4)
    assert config.options["warmup_epochs"] == 10
    assert options("dividemix", dataset="cifar100")["warmup_epochs"] == 30
    # Half as many images of each kind as in a batch, where theirs are 64 and 64.
    assert configure("cifar10", method="standard").batch_size == 64


@pytest.mark.parametrize(
    ("dataset", "noise", "expected"),
    [
        ("cifar10", "symmetric:0.2", 0),
        ("cifar10", "symmetric:0.4", 25),
        ("cifar10", "symmetric:0.8", 25),
        ("cifar10", "symmetric:0.9", 50),
        ("cifar10", "asymmetric:0.4", 0),
        ("cifar100", "symmetric:0.2", 25),
        ("cifar100", "symmetric:0.4", 150),
    ],
)
def test_the_weight_of_unlabelled_images(dataset, noise, expected):
    assert options("dividemix", noise, dataset)["lambda_u"] == expected


def test_what_depends_on_the_kind_of_noise():
    assert [options("dividemix", f"{kind}:0.4")["warmup_entropy"] for kind in ("symmetric", "asymmetric")] == [0, 1]
    assert [options("dividemix", f"symmetric:{r}")["averaged_losses"] for r in (0.4, 0.9)] == [1, 5]


def test_combinations_have_the_datasets_own_c2():
    assert options("self+tnlpad")["c2"] == options("dividemix+tnlpad")["c2"] == options("tnlpad")["c2"] == 0.6
    assert options("self+tnlpad", dataset="mnist")["c2"] == 2.0


@pytest.mark.parametrize("method", SEMI_SUPERVISED)
def test_the_name_of_a_run_bears_the_plus_sign(method, tmp_path):
    short = {"epochs": 1, **({"warmup_epochs": 0} if "dividemix" in method else {})}
    folder = run(configure("digits", noise="symmetric:0.4", method=method, settings=short), tmp_path)
    assert f"_{method}_" in folder.path.name
    assert f"--method {method} " in folder.summary()["command"]
    assert folder.model_file.exists()


@pytest.mark.long
@pytest.mark.parametrize("method", SEMI_SUPERVISED)
def test_digits_with_40_percent_wrong_labels(method, tmp_path):
    """The last epoch beats plain training's by a wide margin, and hardly a wrong label is believed."""
    folders = [run(configure("digits", noise="symmetric:0.4", method=name), tmp_path) for name in ("standard", method)]
    standard, ours = (folder.summary()["last"]["test_accuracy"] for folder in folders)
    assert ours > 0.85
    assert ours > standard + 0.15
    first, *_, last = (record["selection"] for record in folders[1].epochs())
    for name, picked in last.items():
        assert first[name] == {"picked": 1293, "precision": pytest.approx(0.6, abs=0.02)}
        assert picked["precision"] > 0.95
        assert picked["picked"] * picked["precision"] > 0.85 * first[name]["precision"] * 1293


FILES = DataShape(
    fingerprint="0" * 64, kind="files", samples=2000, validation=0, test=0, classes=5, channels=3, height=500, width=500
)


def shape(**changes):
    return dataclasses.replace(FILES, **changes)


def test_two_thousand_photographs():
    """The whole recipe, with what was chosen by the benchmark written out."""
    assert own_recipe(FILES) == {
        "network": "small_resnet",
        "epochs": 75,
        "batch_size": 32,
        "learning_rate": 0.05,
        "milestones": (56,),
        "decay": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "resize": 64,
        "crop": None,
        "crop_padding": 8,
        "flip": True,
    }
    assert configure(FILES).options["c2"] == 0.3


@pytest.mark.parametrize(
    ("changes", "network"),
    [
        ({}, "small_resnet"),
        ({"height": 6}, "small_cnn"),
        ({"kind": "images", "height": 8, "width": 8}, "small_cnn"),
        ({"kind": "images", "height": 8, "width": 20}, "small_resnet"),
        ({"kind": "images", "height": 4, "width": 4}, "small_resnet"),
    ],
)
def test_the_network_goes_with_the_size(changes, network):
    assert own_recipe(shape(**changes))["network"] == network


@pytest.mark.parametrize(("samples", "epochs"), [(10, 100), (2000, 75), (5000, 30), (1_000_000, 20)])
def test_few_samples_are_seen_more_often(samples, epochs):
    assert own_recipe(shape(samples=samples))["epochs"] == epochs


@pytest.mark.parametrize(("side", "pixels"), [(500, 64), (28, 28), (3, 8)])
def test_large_photographs_are_made_small(side, pixels):
    assert image_size(shape(height=side, width=side)) == pixels


def test_from_five_thousand_samples_on_batches_are_larger():
    assert [own_recipe(shape(samples=samples))["batch_size"] for samples in (4999, 5000)] == [32, 64]


def test_the_rate_goes_with_the_network():
    large, tiny = shape(height=32, width=32), shape(height=8, width=8)
    assert [own_recipe(each)["learning_rate"] for each in (large, tiny)] == [0.05, 0.03]


def test_rows_are_judged_out_of_fold_unless_they_are_too_many():
    for kind in ("features", "text", "table"):
        assert dataset_defaults(shape(kind=kind, samples=3000))["folds"] == 5
    assert dataset_defaults(shape(kind="features", samples=10_000, classes=10_000))["folds"] is None
    few, many = (dataset_defaults(shape(kind="table", samples=count)) for count in (499, 500))
    assert few["batch_size"] < many["batch_size"]


@pytest.mark.parametrize(("epochs", "every"), [(20, 1), (99, 1), (100, 2), (250, 5)])
def test_every_sample_is_looked_at_some_fifty_times_at_most(epochs, every):
    assert scoring_interval(epochs) == every


@pytest.mark.parametrize(("channels", "most"), [(3, 2**32 // (3 * 64 * 64)), (1, 2**32 // (64 * 64))])
def test_what_does_not_fit_into_memory_is_streamed(channels, most):
    kept, streamed = (own_recipe(shape(channels=channels, samples=most + more)) for more in (0, 1))
    assert (kept["resize"], kept["crop"]) == (64, None)
    assert (streamed["resize"], streamed["crop"], streamed["crop_padding"]) == (73, 64, 0)


def test_images_that_are_in_memory_already_are_taken_as_they_are():
    recipe = own_recipe(shape(kind="images", height=28, width=28, samples=10_000_000))
    assert (recipe["resize"], recipe["crop"], recipe["crop_padding"]) == (None, None, 3)


def test_writing_is_not_mirrored():
    gray = own_recipe(shape(channels=1))
    assert (gray["flip"], gray["crop_padding"]) == (False, 0)
    features = dataset_defaults(shape(kind="features", channels=3, height=1, width=1))
    assert not features["flip"]  # three numbers are no colour


@pytest.mark.parametrize("kind", ["files", "images", "features"])
@pytest.mark.parametrize("samples", [2, 5000, 10_000_000])
def test_every_recipe_is_a_run(kind, samples):
    config = configure(shape(kind=kind, samples=samples, height=20, width=20))
    assert config.data.name == config.dataset


# What a baseline's authors have no number for, it gets from the dataset that is most like it.
NEAREST = {"cifar10n": "cifar10", "cifar100n": "cifar100", "food101": "cifar100"}
SCHEDULES = {"coteaching_plus": ["init_epoch"], "jocor": ["co_lambda"], "adacorr": ["start_epoch", "update_epoch"]}


@pytest.mark.parametrize("noise", ["symmetric:0.4", "symmetric:0.8", "asymmetric:0.4"])
def test_a_dataset_without_numbers_is_treated_as_the_nearest(noise):
    for (dataset, like), method in product(NEAREST.items(), SCHEDULES):
        own, nearest = (configure(name, method=method, noise=noise).options for name in (dataset, like))
        assert [own[name] for name in SCHEDULES[method]] == [nearest[name] for name in SCHEDULES[method]]


@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist", "digits"])
def test_gray_images_are_learnt_early_wrong_labels_included(dataset):
    adacorr = {noise: configure(dataset, method="adacorr", noise=noise) for noise in ("symmetric:0.4", "symmetric:0.8")}
    assert [config.options["start_epoch"] for config in adacorr.values()] == [10, 5]
    sigua = configure(dataset, method="sigua", noise="pairflip:0.4").options
    assert (sigua["sigua_scale"], sigua["sigua_rate"]) == (0.001, 0.7)


def test_digits_have_numbers_of_their_own():
    noise = "symmetric:0.4"
    assert configure("digits", method="jocor", noise=noise).options["co_lambda"] == 0.5
    assert configure("digits", method="coteaching_plus", noise=noise).options["init_epoch"] == 20


@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist", "cifar10", "cifar100"])
def test_the_weight_of_jocor_is_the_one_that_the_record_of_its_tuning_chose(dataset):
    records = Path(__file__).parents[2] / "benchmarks" / "records"
    tuning = json.loads((records / f"jocor_lambda-{dataset}-cuda.json").read_text())["tuning"]
    accuracies = {each["value"]: each["validation_accuracy"]["mean"] for each in tuning["tried"]}
    best = max(accuracies, key=accuracies.__getitem__)
    assert configure(dataset, method="jocor", noise="symmetric:0.4").options["co_lambda"] == best == tuning["chosen"]
    assert min(accuracies) < best < max(accuracies)  # not an edge of the grid


@pytest.mark.parametrize(("method", "names"), SCHEDULES.items())
def test_own_data_are_treated_as_a_method_s_authors_would_by_default(method, names):
    few = dataclasses.replace(FILES, samples=1000)  # so that there are 100 epochs, as for CIFAR
    config, defaults = configure(few, method=method, settings={"noise_rate": 0.4}), METHODS[method].config()
    assert config.epochs == 100
    assert [config.options[name] for name in names] == [getattr(defaults, name) for name in names]


def test_a_short_run_has_time_for_what_a_method_begins_late():
    """Or labels would never be corrected, and Co-teaching+ would be Co-teaching."""
    for data in (dataclasses.replace(FILES, samples=50_000), "clothing1m"):
        adacorr, plus = (configure(data, method=method) for method in ("adacorr", "coteaching_plus"))
        assert adacorr.epochs == plus.epochs == 20
        assert (adacorr.options["start_epoch"], adacorr.options["update_epoch"]) == (5, 6)
        assert plus.options["init_epoch"] == 4


@pytest.mark.parametrize("method", ["tnlpad", "self+tnlpad", "dividemix+tnlpad"])
def test_own_data_have_a_c2_of_their_own(method):
    assert configure(FILES, method=method).options["c2"] == OWN_C2
    assert all(configure(name, method=method).options["c2"] != OWN_C2 for name in DATASET_DEFAULTS)


@pytest.mark.parametrize("method", ["tnlpad", "self+tnlpad", "dividemix+tnlpad"])
def test_who_follows_the_authors_code_chooses_by_w_in_combinations_as_well(method):
    assert configure("cifar10", method=method, protocol="authors").options["judge_by"] == "sigma_chosen_by_w"
    assert configure("cifar10", method=method).options["judge_by"] == "auto"


def test_jocor_halves_the_rate_only_if_half_of_the_classes_keep_their_labels():
    noise = "asymmetric:0.4"
    assert configure("cifar10", method="jocor", noise=noise).noise_rate == 0.2
    assert configure("cifar100", method="jocor", noise=noise).noise_rate == 0.4
    assert configure("cifar10", method="coteaching", noise=noise).noise_rate == 0.4
