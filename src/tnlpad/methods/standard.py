"""Ordinary training: the mean cross entropy with the given labels. The paper's "Standard".

`standard_2x` is a control experiment that the paper does not have. Without its penalties, the decomposition is plain
SGD with these changes for the decomposed weights: twice the learning rate, half the weight decay, and initial weights
of twice the variance. `standard_2x` trains exactly that. A gain of the full method over it comes from the penalties.
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
    """No options."""


class Standard:
    """One network, one optimizer, all labels as given. Methods that change only the step derive from it."""

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

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save besides networks and optimizers, by name; none unless a subclass has some."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, self.tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, self.tensors())


def standard(config: StandardConfig, setup: Setup) -> Standard:
    """Build plain SGD."""
    network = setup.network(0)
    return Standard(network, torch.optim.SGD(network.parameters(), **setup.sgd))


def standard_2x(config: StandardConfig, setup: Setup) -> Standard:
    """Build the control: plain SGD as the decomposition without penalties."""
    network = setup.network(0)
    decomposed, *ordinary = parameter_groups(network, init="independent", generator=setup.generator)
    with torch.no_grad():
        for weight, second in zip(decomposed["params"], decomposed["gamma"], strict=True):
            weight.add_(second)
    doubled = {
        "params": decomposed["params"],
        "lr_scale": 2.0,
        "lr": 2.0 * setup.sgd["lr"],  # a new tensor if the learning rate is a tensor, not shared with other groups
        "weight_decay": setup.sgd.get("weight_decay", 0.0) / 2,
    }
    groups = [doubled, *({"params": group["params"]} for group in ordinary)]
    return Standard(network, torch.optim.SGD(groups, **setup.sgd))
