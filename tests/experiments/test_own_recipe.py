import dataclasses

import pytest

from tnlpad.data.own import DataShape
from tnlpad.experiments.config import configure
from tnlpad.experiments.own_recipe import image_size, looks_every, own_recipe

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
        ({"kind": "features", "height": 1, "width": 1, "channels": 30}, "mlp"),
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
    features, tiny = shape(kind="features", channels=30), shape(height=8)
    assert [own_recipe(each)["learning_rate"] for each in (features, tiny)] == [0.03, 0.03]


@pytest.mark.parametrize(("epochs", "every"), [(20, 1), (99, 1), (100, 2), (250, 5)])
def test_every_sample_is_looked_at_some_fifty_times_at_most(epochs, every):
    assert looks_every(epochs) == every


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
    features = own_recipe(shape(kind="features", channels=3, height=1, width=1))
    assert not features["flip"]  # three numbers are no colour


@pytest.mark.parametrize("kind", ["files", "images", "features"])
@pytest.mark.parametrize("samples", [2, 5000, 10_000_000])
def test_every_recipe_is_a_run(kind, samples):
    config = configure(shape(kind=kind, samples=samples, height=20, width=20))
    assert config.data.name == config.dataset
