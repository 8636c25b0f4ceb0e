"""TNLPAD's options, and its equivalence with the control when both penalties are off."""

import pytest
import torch

from tests.methods.problems import blobs, build, in_double, setup_for, train, weights
from tnlpad.methods.tnlpad import TnlpadConfig


def test_without_penalties_it_is_the_control():
    problem = in_double(blobs())
    off = {"sigma_constraint": False, "gamma_constraint": False}
    method = build("tnlpad", setup_for(problem, dtype=torch.float64, batchnorm=True), **off)
    control = build("standard_2x", setup_for(problem, dtype=torch.float64, batchnorm=True))
    train(method, problem, 4)
    train(control, problem, 4)
    # σ and γ are summed after the step here and before it there: equal up to rounding.
    for (name, found), expected in zip(method.network.state_dict().items(), weights(control), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize(
    ("family", "at_1", "at_11"),
    [
        ("power", 1.0, 11**-0.6),
        ("constant", 1.0, 1.0),
        ("linear", 1.0, 1 - 10 / 100),
        ("exponential", 1.0, 0.95**10),
        ("step", 1.0, 0.6),
    ],
)
def test_the_families_of_the_penalty(family, at_1, at_11):
    penalty = TnlpadConfig(gamma_family=family).gamma_penalty(epochs=100)
    assert (penalty(1), penalty(11)) == pytest.approx((at_1, at_11))


def test_the_switches_reach_the_optimizer():
    problem = blobs()
    full = build("tnlpad", setup_for(problem), c1=0.5, c2=2.0, norm="tensor").optimizer
    assert (full.sigma_penalty(3), full.gamma_penalty(3), full.norm) == (1.5, pytest.approx(1 / 9), "tensor")
    assert build("tnlpad", setup_for(problem), sigma_constraint=False).optimizer.sigma_penalty is None
    assert build("tnlpad", setup_for(problem), gamma_constraint=False).optimizer.gamma_penalty is None
    assert build("tnlpad", setup_for(problem), gamma_update="proximal").optimizer.gamma_update == "proximal"


@pytest.mark.parametrize(
    ("switches", "reported"),
    [
        ({}, "sigma"),
        ({"sigma_constraint": False}, "sigma"),
        ({"gamma_constraint": False}, "w"),
        ({"gamma_constraint": False, "sigma_constraint": False}, "w"),
        ({"judge_by": "w"}, "w"),
        ({"judge_by": "sigma_chosen_by_w"}, "sigma"),
        ({"judge_by": "sigma_chosen_by_w", "gamma_constraint": False}, "w"),
        ({"judge_by": "sigma", "gamma_constraint": False}, "sigma"),
    ],
)
def test_which_weights_are_judged(switches, reported):
    method = build("tnlpad", setup_for(blobs()), **switches)
    assert method.reported == (reported,)
    assert next(iter(method.judged)) == reported
    assert set(method.judged) == {"sigma", "w"}


def test_the_views_hold_sigma_and_w():
    problem = blobs()
    method = build("tnlpad", setup_for(problem))
    train(method, problem, 1)
    weight = method.network[0].weight
    parts = method.optimizer.state[weight]
    with method.judged["sigma"]() as network:
        assert network is method.network
        assert torch.equal(weight, parts["sigma"])
    with method.judged["w"]():
        assert torch.equal(weight, parts["sigma"] + parts["gamma"])
    assert parts["gamma"].any()


def test_the_penalties_follow_the_epochs():
    problem = blobs()
    method = build("tnlpad", setup_for(problem))
    train(method, problem, 3)
    assert method.optimizer.epoch == 3


@pytest.mark.parametrize("wrong", [{"gamma_family": "cubic"}, {"judge_by": "gamma"}])
def test_wrong_choices_are_named(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}='{value}'"):
        build("tnlpad", setup_for(blobs()), **wrong)
