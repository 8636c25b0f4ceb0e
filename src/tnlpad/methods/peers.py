"""Two networks that teach each other: what Co-teaching, Co-teaching+ and CNLCU have in common.

They differ in which samples each network picks; how many, and what follows, is the same. Both networks are judged, and
the mean of their accuracies is reported, because choosing the better one on the test set would be a selection on it.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tnlpad.methods.forward import forward
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.selection import Forgetting, masked_mean
from tnlpad.types import Batch, Clock

NAMES = ("first", "second")


def judged_each(networks: Sequence[nn.Module]) -> Judged:
    """The two networks by name, as they are."""
    first, second = networks
    return {"first": lambda: nullcontext(first), "second": lambda: nullcontext(second)}


class Peers:
    """Two networks of their own initialisation with an optimizer each, and what each of them picked this epoch.

    Args:
        config: How fast `forget`, the share of a batch to leave out, rises to the noise rate.
        setup: What the method starts from.
        method: Its name.
    """

    def __init__(self, config: Forgetting, setup: Setup, method: str) -> None:
        self.config, self.noise_rate = config, setup.required_noise_rate(method)
        self.forget = torch.zeros((), dtype=torch.float64, device=setup.labels.device)
        self.networks = [setup.network(0), setup.network(1)]
        self.optimizers = [SGD(network.parameters(), **setup.sgd) for network in self.networks]
        self.judged = judged_each(self.networks)
        self.selections: Mapping[str, Tensor] = {
            name: torch.zeros_like(setup.labels, dtype=torch.bool) for name in NAMES
        }

    def begin_epoch(self, clock: Clock) -> None:
        """Start with nothing picked."""
        self.forget.fill_(self.config.forget_rate(clock.epoch, self.noise_rate))
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

    def tensors(self) -> dict[str, Tensor]:
        """To be saved."""
        return {"forget": self.forget, **self.selections}
