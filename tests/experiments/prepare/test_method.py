from types import SimpleNamespace

import pytest
import torch

from tnlpad.data.augment import Augmentation
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import method as module
from tnlpad.experiments.prepare import prepare_data, prepare_method
from tnlpad.experiments.prepare.network import build_network
from tnlpad.methods import METHODS
from tnlpad.rng import global_torch_stream

CPU = torch.device("cpu")
SETTINGS = {
    "c2": 0.123,
    "epochs": 7,
    "learning_rate": 0.02,
    "momentum": 0.3,
    "weight_decay": 0.04,
    "noise_rate": 0.35,
    "crop_padding": 2,
    "precision": "bfloat16",
}


@pytest.fixture
def given(monkeypatch):
    """Data, a generator, and what a method is given of them."""
    entry = SimpleNamespace(build=lambda options, setup: (options, setup), config=METHODS["tnlpad"].config)
    monkeypatch.setitem(module.METHODS, "tnlpad", entry)
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=SETTINGS)
    data, generator = prepare_data(config, None, CPU), torch.Generator()
    options, setup = prepare_method(config, data, generator, CPU)
    return SimpleNamespace(config=config, data=data, generator=generator, options=options, setup=setup)


def test_a_method_is_given_what_the_settings_say(given):
    assert given.options.c2 == 0.123
    assert given.setup.sgd == {"lr": 0.02, "momentum": 0.3, "weight_decay": 0.04, "fused": True}
    assert (given.setup.epochs, given.setup.num_classes) == (7, 10)
    assert given.setup.generator is given.generator


def test_a_method_knows_nothing_of_the_truth(given):
    assert given.setup.labels.tolist() == given.data.noisy.given.tolist()
    assert given.setup.noise_rate == 0.35  # as it was told, not as it is


def test_it_may_draw_from_the_images_trained_on_and_no_others(given):
    source = given.setup.source()
    assert source.index.tolist() == given.data.parts.train.tolist()
    assert source.augmenter.augmentation == Augmentation(crop_padding=2)
    assert source.bf16


@pytest.mark.parametrize("number", [0, 1])
def test_each_network_has_weights_of_its_own(given, number):
    with global_torch_stream(3, f"network-{number}"):
        expected = build_network(given.config, (1, 8, 8), 10).state_dict()
    found = given.setup.network(number).state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
