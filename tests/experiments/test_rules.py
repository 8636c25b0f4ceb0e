import re

import pytest

from tests.experiments.test_own_recipe import shape
from tnlpad.experiments.config import configure
from tnlpad.experiments.rules import RULES

# For every rule the values next to its edge: the last that is allowed, and the first that is not.
EDGES = [
    ("cifar10", "epochs", 1, 0),
    ("cifar10", "batch_size", 1, 0),
    ("food101", "batches_per_epoch", 1, 0),
    ("cifar10", "learning_rate", 1e-9, 0.0),
    ("cifar10", "milestones", (1, 2), (2, 2)),
    ("cifar10", "milestones", (), (0,)),
    ("cifar10", "decay", 1.0, 1.01),
    ("cifar10", "decay", 0.01, 0.0),
    ("cifar10", "momentum", 0.0, -0.01),
    ("cifar10", "momentum", 0.99, 1.0),
    ("cifar10", "weight_decay", 0.0, -1e-9),
    ("cifar10", "validation_fraction", 0.01, 0.0),
    ("cifar10", "validation_fraction", 0.99, 1.0),
    ("food101", "subset", 1, 0),
    ("food101", "resize", 112, 0),
    ("food101", "crop", 1, 0),
    ("cifar10", "crop_padding", 0, -1),
    ("cifar10", "cutout", 0, -1),
    ("cifar10", "stem_padding", 0, -1),
    ("clothing1m", "pretrained", "mine-12345678.pt", "mine-1234567.pt"),
    ("clothing1m", "pretrained", f"mine-{'0' * 64}.pt", f"mine-{'0' * 65}.pt"),
    ("cifar10", "noise_rate", 0.0, -0.01),
    ("cifar10", "noise_rate", 0.99, 1.0),
    ("cifar10", "patience", 1, 0),
]


def test_every_rule_has_an_edge():
    assert {name for _, name, *_ in EDGES} | {"seed"} == RULES.keys()


@pytest.mark.parametrize(("dataset", "name", "allowed", "refused"), EDGES)
def test_edges(dataset, name, allowed, refused):
    assert getattr(configure(dataset, settings={name: allowed}), name) == allowed
    with pytest.raises(ValueError, match=f"{name}={re.escape(repr(refused))}: must be {re.escape(RULES[name][0])}"):
        configure(dataset, settings={name: refused})


def test_seeds_count_from_zero():
    assert configure("digits", seed=0).seed == 0
    with pytest.raises(ValueError, match="seed=-1: must be a whole number >= 0"):
        configure("digits", seed=-1)


# Images of the catalogue


def test_images_in_files_may_be_cropped_to_all_that_there_is():
    assert configure("food101", settings={"crop": 128}).crop == 128


def test_clean_validation_where_it_was_published():
    assert configure("clothing1m", settings={"validation": "clean"}).validation == "clean"


def test_noise_of_images_in_memory_may_depend_on_them():
    assert configure("digits", noise="instance:0.4").noise == "instance:0.4"


# A person's own data

FILES, IMAGES = shape(), shape(kind="images", height=16, width=16)
FEATURES = shape(kind="features", channels=30, height=1, width=1)
STREAMED = {"resize": 20, "crop": 16}


@pytest.mark.parametrize(
    ("own", "settings", "name"),
    [
        *((IMAGES, {name: 4}, name) for name in ("resize", "crop", "batches_per_epoch", "subset")),
        *((FILES, {name: 4}, name) for name in ("batches_per_epoch", "subset")),
        *((FILES, {**STREAMED, name: 4}, name) for name in ("crop_padding", "cutout", "subset")),
        *((FEATURES, {name: 4}, name) for name in ("resize", "crop", "crop_padding", "cutout", "stem_padding")),
        *((FEATURES, {name: 4}, name) for name in ("batches_per_epoch", "subset")),
        (FEATURES, {"flip": True}, "flip"),
    ],
)
def test_what_would_do_nothing_is_refused(own, settings, name):
    with pytest.raises(ValueError, match=f"{name}={settings[name]}: has no meaning for .* Leave it out"):
        configure(own, settings=settings)


@pytest.mark.parametrize(
    ("own", "settings"),
    [
        (IMAGES, {"crop_padding": 2, "flip": True, "cutout": 4}),
        (FILES, {"crop_padding": 2, "flip": True, "cutout": 4, "resize": 20}),
        (FILES, {**STREAMED, "batches_per_epoch": 3, "flip": True}),
        (FILES, {"resize": 20, "crop": 20}),
    ],
)
def test_what_does_something_is_taken(own, settings):
    config = configure(own, settings=settings)
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("own", "settings", "possible"),
    [(IMAGES, {}, True), (FILES, {}, True), (FILES, STREAMED, False), (FEATURES, {}, False)],
    ids=["images", "files", "streamed files", "features"],
)
def test_noise_that_depends_on_images_needs_them_in_memory(own, settings, possible):
    if possible:
        assert configure(own, noise="instance:0.4", settings=settings).noise == "instance:0.4"
    else:
        with pytest.raises(ValueError, match=r"'instance:0.4': depends on images that are in memory"):
            configure(own, noise="instance:0.4", settings=settings)
