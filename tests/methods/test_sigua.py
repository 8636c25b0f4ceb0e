"""SIGUA by hand, and its equivalence with small-loss training."""

import math

import pytest
import torch
from torch.nn import functional as F

from tests.methods.problems import batches, blobs, build, in_double, setup_for, train, weights
from tests.methods.tables import LN3, LN9, moved, one_step, table_setup
from tnlpad.methods.selection import Forgetting
from tnlpad.methods.sigua import kept_and_ascent


@pytest.mark.parametrize(
    ("forget", "rate", "kept", "ascent"),
    [
        (0.4, 0.5, [0, 1, 2, 3, 4, 5], [6, 7]),
        (0.4, 1.0, [0, 1, 2, 3, 4, 5], [6, 7, 8, 9]),
        (0.4, 0.1, [0, 1, 2, 3, 4, 5], [6]),  # ⌊0.4⌋ = 0 becomes one
        (0.0, 0.5, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], []),
        (0.95, 0.5, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], []),  # nothing would be kept, so everything is
    ],
)
def test_the_ascent_set_lies_next_to_the_kept(forget, rate, kept, ascent):
    losses = torch.randperm(10, generator=torch.Generator().manual_seed(0)).double()
    masks = kept_and_ascent(losses, torch.tensor(forget, dtype=torch.float64), rate)
    assert [sorted(losses[mask].int().tolist()) for mask in masks] == [kept, ascent]


def test_the_loss_and_the_step_by_hand():
    margins = [LN9, LN3, 0.0, -LN3]
    method = build("sigua", table_setup(margins), gradual_epochs=1, sigua_scale=0.1, sigua_rate=0.5)
    loss = one_step(method, 4)
    # Samples 0 and 1 are kept; of the two left out, sample 2 is next and alone: it moves the other way.
    assert loss == pytest.approx((-math.log(0.9) - math.log(0.75)) / 2 + 0.1 * math.log(0.5))
    assert moved(method.network, margins) == pytest.approx([0.1 / 2, 0.25 / 2, -0.1 * 0.5, 0.0])
    assert method.selections["w"].tolist() == [True, True, False, False]


def test_a_loss_above_the_limit_is_not_raised():
    margins = [LN9, -LN9]  # the second sample's loss is ln 10, above ln 2
    for limit, push in ((None, -0.1 * 0.9), (4.0, -0.1 * 0.9), (1.0, 0.0)):
        setup = table_setup(margins)
        method = build("sigua", setup, gradual_epochs=1, sigua_scale=0.1, sigua_rate=0.5, ascent_limit=limit)
        one_step(method, 2)
        assert moved(method.network, margins) == pytest.approx([0.1, push])


def test_without_ascent_it_is_small_loss_training():
    problem = in_double(blobs())
    method = build("sigua", setup_for(problem, dtype=torch.float64), sigua_scale=0.0)
    train(method, problem, 3)
    setup = setup_for(problem, dtype=torch.float64)
    network = setup.network(0)
    optimizer = torch.optim.SGD(network.parameters(), **setup.sgd)
    for epoch in (1, 2, 3):
        for batch in batches(problem, epoch):
            losses = F.cross_entropy(network(batch.images), batch.labels, reduction="none")
            count = math.floor((1 - Forgetting(gradual_epochs=3).forget_rate(epoch, 0.3)) * len(losses) + 1e-9)
            optimizer.zero_grad()
            losses.sort().values[:count].mean().backward()
            optimizer.step()
    # Sums are in another order: equal up to rounding.
    for found, expected in zip(weights(method), network.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("noise_rate", "rate"), [(0.2, 0.4), (0.3, 0.4), (0.45, 0.3)])
def test_the_rate_follows_the_noise_rate(noise_rate, rate):
    assert build("sigua", setup_for(blobs(), noise_rate=noise_rate)).rate == rate
    assert build("sigua", setup_for(blobs(), noise_rate=noise_rate), sigua_rate=0.7).rate == 0.7


@pytest.mark.parametrize("wrong", [{"sigua_scale": -1.0}, {"sigua_rate": 1.5}, {"ascent_limit": 0.0}])
def test_wrong_settings_are_named(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        build("sigua", setup_for(blobs()), **wrong)
