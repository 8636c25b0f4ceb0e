"""Co-teaching by hand, and its equivalence with two plain runs."""

import math

import pytest
import torch

from tests.methods.problems import blobs, build, same, setup_for, train, two_plain_runs, weights
from tests.methods.tables import LN3, LN9, moved, one_step, table_setup
from tnlpad.types import Clock

FIRST, SECOND = [LN9, LN3, 0.0, -LN3], [-LN3, LN3, LN9, 0.0]


def test_each_learns_from_what_the_other_selected():
    method = build("coteaching", table_setup(FIRST, SECOND), gradual_epochs=1)
    loss = one_step(method, 4)
    # The first selects samples 0 and 1, the second 1 and 2. A sample's logit moves by (1 − p)/2, a mean over two.
    assert method.selections["first"].tolist() == [True, True, False, False]
    assert method.selections["second"].tolist() == [False, True, True, False]
    first, second = method.networks
    assert moved(first, FIRST) == pytest.approx([0.0, 0.25 / 2, 0.5 / 2, 0.0])
    assert moved(second, SECOND) == pytest.approx([0.75 / 2, 0.25 / 2, 0.0, 0.0])
    taught_first, taught_second = -(math.log(0.75) + math.log(0.5)) / 2, -(math.log(0.25) + math.log(0.75)) / 2
    assert loss == pytest.approx((taught_first + taught_second) / 2)


def test_forgetting_nothing_it_is_two_plain_runs():
    problem = blobs()
    method = build("coteaching", setup_for(problem, noise_rate=0.0))
    train(method, problem, 3)
    assert same(weights(method), two_plain_runs(problem, 3))


def test_the_selection_is_cleared_every_epoch():
    problem = blobs()
    method = build("coteaching", setup_for(problem, noise_rate=0.5), gradual_epochs=2)
    train(method, problem, 1)
    assert method.selections["first"].all()
    train(method, problem, range(2, 3))
    assert method.selections["first"].sum() == len(problem.given) // 2
    assert not torch.equal(method.selections["first"], method.selections["second"])
    method.begin_epoch(Clock(epoch=3, epochs=8))
    assert not any(selection.any() for selection in method.selections.values())


def test_it_needs_a_noise_rate():
    with pytest.raises(ValueError, match="coteaching needs to know"):
        build("coteaching", setup_for(blobs(), noise_rate=None))
    with pytest.raises(ValueError, match=r"noise_rate=1\.5"):
        build("coteaching", setup_for(blobs(), noise_rate=1.5))
