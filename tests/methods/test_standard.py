"""Plain training by hand, and the control with the decomposition's step."""

import math

import pytest
import torch

from tests.methods.problems import blobs, build, setup_for
from tests.methods.tables import LN3, LN9, moved, one_step, table_setup


def test_the_step_by_hand():
    margins = [LN9, LN3, 0.0, -LN3]
    method = build("standard", table_setup(margins))
    loss = one_step(method, 4)
    assert loss == pytest.approx(-sum(math.log(p) for p in (0.9, 0.75, 0.5, 0.25)) / 4)
    assert moved(method.network, margins) == pytest.approx([0.1 / 4, 0.25 / 4, 0.5 / 4, 0.75 / 4])


def test_the_control_doubles_the_step_of_weights_and_biases_alone():
    setup = setup_for(blobs(), batchnorm=True)
    method = build("standard_2x", setup)
    doubled, ordinary = method.optimizers[0].param_groups
    assert [tuple(p.shape) for p in doubled["params"]] == [(32, 2), (32,), (4, 32), (4,)]
    assert (doubled["lr"], doubled["lr_scale"], doubled["weight_decay"]) == (0.2, 2.0, 5e-4)
    assert [tuple(p.shape) for p in ordinary["params"]] == [(32,), (32,)]
    assert (ordinary["lr"], ordinary["weight_decay"]) == (0.1, 1e-3)


def test_the_control_starts_from_the_sum_of_two_draws():
    variances = []
    for name in ("standard", "standard_2x"):
        drawn = [build(name, setup_for(blobs(), seed=seed)).network[2].weight.detach() for seed in range(20)]
        variances.append(torch.stack(drawn).var().item())
    assert variances[1] / variances[0] == pytest.approx(2.0, rel=0.1)


def test_learning_rates_that_are_tensors_are_not_shared_by_groups_of_another_scale():
    sgd = {"lr": torch.tensor(0.1), "momentum": 0.9}
    doubled, ordinary = build("standard_2x", setup_for(blobs(), batchnorm=True, sgd=sgd)).optimizers[0].param_groups
    ordinary["lr"].fill_(0.01)
    assert doubled["lr"].item() == pytest.approx(0.2)
