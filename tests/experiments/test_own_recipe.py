import dataclasses

import pytest

from tnlpad.data.own import DataShape
from tnlpad.experiments.config import configure
from tnlpad.experiments.own_recipe import image_size, own_recipe

FILES = DataShape(
    fingerprint="0" * 64, kind="files", samples=2000, validation=0, test=0, classes=5, channels=3, height=500, width=500
)


def shape(**changes):
    return dataclasses.replace(FILES, **changes)


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


def test_what_does_not_fit_into_memory_is_streamed():
    recipe = own_recipe(shape(samples=1_000_000))
    assert (recipe["resize"], recipe["crop"], recipe["crop_padding"]) == (73, 64, 0)
    assert own_recipe(FILES)["crop"] is None


def test_writing_is_not_mirrored():
    gray = own_recipe(shape(channels=1))
    assert (gray["flip"], gray["crop_padding"]) == (False, 0)
    assert own_recipe(FILES)["flip"]


@pytest.mark.parametrize("kind", ["files", "images", "features"])
@pytest.mark.parametrize("samples", [2, 5000, 10_000_000])
def test_every_recipe_is_a_run(kind, samples):
    config = configure(shape(kind=kind, samples=samples, height=20, width=20))
    assert config.data.name == config.dataset
