"""Two networks that teach each other: what Co-teaching, Co-teaching+ and CNLCU have in common.

They differ in which samples each network picks; what follows is the same. Both networks are judged, and the mean of
their accuracies is reported, because choosing the better one on the test set would be a selection on it.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tnlpad.methods.forward import forward
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.selection import masked_mean
from tnlpad.types import Batch

NAMES = ("first", "second")


def judged_each(networks: Sequence[nn.Module]) -> Judged:
    """The two networks by name, as they are."""
    first, second = networks
    return {"first": lambda: nullcontext(first), "second": lambda: nullcontext(second)}


class Peers:
    """Two networks of their own initialisation with an optimizer each, and what each of them picked this epoch."""

    def __init__(self, setup: Setup) -> None:
        self.networks = [setup.network(0), setup.network(1)]
        self.optimizers = [SGD(network.parameters(), **setup.sgd) for network in self.networks]
        self.judged = judged_each(self.networks)
        self.selections: Mapping[str, Tensor] = {
            name: torch.zeros_like(setup.labels, dtype=torch.bool) for name in NAMES
        }

    def begin_epoch(self) -> None:
        """Start with nothing picked."""
        for network in self.networks:
            network.train()
        for selection in self.selections.values():
            selection.zero_()

    def outputs(self, batch: Batch) -> list[Tensor]:
        """Both networks' logits."""
        return [forward(network, batch.images) for network in self.networks]

    def exchange(self, batch: Batch, losses: Sequence[Tensor], picked: Sequence[Tensor]) -> Tensor:
        """Update each network by its mean loss over what the other picked; returns the mean of the two."""
        for selection, mask in zip(self.selections.values(), picked, strict=True):
            selection[batch.index] = mask
        taught = [masked_mean(losses[0], picked[1]), masked_mean(losses[1], picked[0])]
        for loss, optimizer in zip(taught, self.optimizers, strict=True):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return torch.stack(taught).mean().detach()
