"""Ordinary training: the mean cross entropy over the given labels. The paper's "Standard".

`standard_2x` is a control that the paper lacks. Without its penalties the decomposition is plain SGD with twice the
learning rate, half the weight decay and an initial weight of twice the variance on the decomposed weights; this trains
exactly that, so that a gain of the full method cannot be put down to it.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.core.split import parameter_groups
from tnlpad.methods.forward import mean_loss
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class StandardConfig:
    """Nothing to choose."""


class Standard:
    """One network, one optimizer, every label believed."""

    def __init__(self, network: nn.Module, optimizer: Optimizer) -> None:
        self.network = network
        self.optimizers: Sequence[Optimizer] = [optimizer]
        self.judged: Judged = {"w": lambda: nullcontext(self.network)}
        self.reported = ("w",)
        self.selections: Mapping[str, Tensor] = {}

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        (optimizer,) = self.optimizers
        loss = mean_loss(self.network, batch.images, batch.labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, {})


def standard(config: StandardConfig, setup: Setup) -> Standard:
    """Plain SGD."""
    network = setup.network(0)
    return Standard(network, torch.optim.SGD(network.parameters(), **setup.sgd))


def standard_2x(config: StandardConfig, setup: Setup) -> Standard:
    """Plain SGD as the decomposition without penalties would train: see the module's text."""
    network = setup.network(0)
    decomposed, *ordinary = parameter_groups(network, init="independent", generator=setup.generator)
    with torch.no_grad():
        for weight, second in zip(decomposed["params"], decomposed["gamma"], strict=True):
            weight.add_(second)
    doubled = {
        "params": decomposed["params"],
        "lr_scale": 2.0,
        "lr": 2.0 * setup.sgd["lr"],  # a tensor of its own where the learning rate is one
        "weight_decay": setup.sgd.get("weight_decay", 0.0) / 2,
    }
    groups = [doubled, *({"params": group["params"]} for group in ordinary)]
    return Standard(network, torch.optim.SGD(groups, **setup.sgd))
