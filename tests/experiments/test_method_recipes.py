import dataclasses

import pytest

from tests.experiments.test_own_recipe import FILES
from tnlpad.experiments.config import configure
from tnlpad.experiments.own_recipe import C2
from tnlpad.experiments.recipes import DATASET_DEFAULTS
from tnlpad.methods import METHODS

# What a baseline's authors have no number for, it gets from the dataset that is most like it.
NEAREST = {"cifar10n": "cifar10", "cifar100n": "cifar100", "food101": "cifar100"}
SCHEDULES = {"coteaching_plus": ["init_epoch"], "jocor": ["co_lambda"], "adacorr": ["start_epoch", "update_epoch"]}


@pytest.mark.parametrize("noise", ["symmetric:0.4", "symmetric:0.8", "asymmetric:0.4"])
@pytest.mark.parametrize("method", SCHEDULES)
@pytest.mark.parametrize("dataset", NEAREST)
def test_a_dataset_without_numbers_is_treated_as_the_nearest(dataset, method, noise):
    own, nearest = (configure(name, method=method, noise=noise).options for name in (dataset, NEAREST[dataset]))
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
    assert configure(FILES, method=method).options["c2"] == C2
    assert all(configure(name, method=method).options["c2"] != C2 for name in DATASET_DEFAULTS)


@pytest.mark.parametrize("method", ["tnlpad", "self+tnlpad", "dividemix+tnlpad"])
def test_who_follows_the_authors_code_chooses_by_w_in_combinations_as_well(method):
    assert configure("cifar10", method=method, protocol="authors").options["judge_by"] == "sigma_chosen_by_w"
    assert configure("cifar10", method=method).options["judge_by"] == "auto"
