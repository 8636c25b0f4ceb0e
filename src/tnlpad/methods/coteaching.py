"""Co-teaching: two networks, each trained on the samples that the other one selects by their small loss.

Paper: Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels" (NeurIPS 2018). In
every batch, each network selects its ⌊(1 − forget)·B⌋ samples of smallest loss, and the other network learns from them.
The forget rate rises linearly from 0 in the first epoch to the noise rate in the tenth. The reported accuracy is the
mean of both networks: picking the better one on the test set would be a selection on test data.

How we differ from the public code: the loss is the plain mean over the selected samples. That code divides the mean by
their number once more, which Adam compensates for and SGD does not. If no sample of a batch would be kept, all are.
The forget rates are those of the public code, which numbers epochs from 0. The code of Co-teaching, Co-teaching+, JoCoR
and SIGUA skips its epoch 0, so training there starts with a forget rate of a ninth of the noise rate. Ours starts with
0.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from tnlpad.methods.forward import forward, gradient_step
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import Forgetting, masked_mean, smallest
from tnlpad.types import Batch, Clock

NAMES = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class CoteachingConfig(Forgetting):
    """No further options."""


class Coteaching:
    """Two networks with different initial weights and an optimizer each. Subclasses select samples in another way."""

    def __init__(self, config: Forgetting, setup: Setup, name: str = "coteaching") -> None:
        self.config, self.noise_rate = config, setup.required_noise_rate(name)
        self.forget = torch.zeros((), dtype=torch.float64, device=setup.labels.device)
        self.networks = [setup.network(0), setup.network(1)]
        self.optimizers: Sequence[Optimizer] = [SGD(network.parameters(), **setup.sgd) for network in self.networks]
        first, second = self.networks
        self.judged: Judged = {"first": lambda: nullcontext(first), "second": lambda: nullcontext(second)}
        self.reported = NAMES
        self.selections: Mapping[str, Tensor] = {
            name: torch.zeros_like(setup.labels, dtype=torch.bool) for name in NAMES
        }

    def begin_epoch(self, clock: Clock) -> None:
        self.forget.fill_(self.config.forget_rate(clock.epoch, self.noise_rate))
        for network in self.networks:
            network.train()
        for selection in self.selections.values():
            selection.zero_()

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        logits = [forward(network, batch.images) for network in self.networks]
        losses = [F.cross_entropy(each, batch.labels, reduction="none") for each in logits]
        selected = self.select(batch, logits, losses)
        for selection, mask in zip(self.selections.values(), selected, strict=True):
            selection[batch.index] = mask
        means = [self.mean(losses[0], selected[1]), self.mean(losses[1], selected[0])]
        return torch.stack([gradient_step(*pair) for pair in zip(self.optimizers, means, strict=True)]).mean()

    def select(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> Sequence[Tensor]:
        """Return a mask for each network: the samples that the other network learns from."""
        return [smallest(loss, self.forget) for loss in losses]

    def mean(self, losses: Tensor, selected: Tensor) -> Tensor:
        """Return the loss that a network minimises, from those of all samples of the batch."""
        return masked_mean(losses, selected)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save besides networks and optimizers, by name."""
        return {"forget": self.forget, **self.selections}

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.networks, self.optimizers, self.tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, self.networks, self.optimizers, self.tensors())
