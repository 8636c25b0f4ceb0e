"""Helpers for the tests of SELF, DivideMix and their combinations with TNLPAD."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.methods.problems import Problem, same, saved_and_loaded, setup_for, train, weights
from tnlpad.core.penalties import Constant
from tnlpad.methods import Method, Setup

# γ stays 0 and σ is not penalised: plain SGD.
HELD = {"gamma_update": "proximal", "sigma_constraint": False, "init": "zero"}


def held_at_zero(config: type[Any]) -> type[Any]:
    """Return the configuration class with an infinite β2; use it with the options `HELD`."""

    class Held(config):
        def gamma_penalty(self, epochs: int) -> Constant:
            return Constant(math.inf)

    return dataclass(frozen=True, kw_only=True)(Held)


def watched(networks: Mapping[str, nn.Module]) -> list[tuple[str, bool, bool, int]]:
    """Return a list that records every pass: network, training mode, gradients enabled, number of images."""
    passes: list[tuple[str, bool, bool, int]] = []
    for name, network in networks.items():
        network.register_forward_hook(
            lambda network, images, _, name=name: passes.append(
                (name, network.training, torch.is_grad_enabled(), len(images[0]))
            )
        )
    return passes


def assert_it_resumes(make: Callable[[Setup], Method], problem: Problem, *, after: int, last: int, from_epoch: int):
    """Check that a state loaded by a method in another phase continues bit for bit."""
    method, fresh = (make(setup_for(problem, batchnorm=True, seed=seed)) for seed in (0, 9))
    train(method, problem, after)
    state = saved_and_loaded(method.state_dict())
    rest = range(after + 1, last + 1)
    expected = train(method, problem, rest)
    train(fresh, problem, from_epoch)
    fresh.load_state_dict(state)
    assert train(fresh, problem, rest) == expected
    assert same(weights(fresh), weights(method))
