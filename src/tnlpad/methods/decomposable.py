"""A network with its optimizer: plain SGD, or the decomposition w = σ + γ for as long as it is wanted.

The semi-supervised methods and their combinations with TNLPAD are the same code; a combination only has its networks
decomposed. `drop_gamma` ends that: σ stays as the network and takes its momentum along, γ is left behind. Where γ is 0
the decomposition is plain SGD, and dropping it changes nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.penalties import Penalty
from tnlpad.methods.protocol import Setup
from tnlpad.methods.tnlpad import Part, TnlpadConfig, decomposition


class Trainee:
    """One network, trained by whichever of its two optimizers is in use.

    Args:
        network: To be trained.
        setup: What the method starts from.
        config: Of the decomposition; None for plain SGD alone.
        gamma_penalty: β2, since a method may run it by a clock of its own.
    """

    def __init__(
        self, network: nn.Module, setup: Setup, config: TnlpadConfig | None, gamma_penalty: Penalty | None
    ) -> None:
        self.network = network
        self.plain = SGD(network.parameters(), **setup.sgd)
        self.decomposition = None if config is None else decomposition(config, network, setup, gamma_penalty)
        self.decomposed = self.decomposition is not None

    @property
    def optimizer(self) -> Optimizer:
        """The one in use."""
        return self.decomposition if self.decomposition is not None and self.decomposed else self.plain

    def begin_epoch(self) -> None:
        """Advance the clock of the penalties, if there are any."""
        self.network.train()
        if isinstance(self.optimizer, Decomposition):
            self.optimizer.start_epoch()

    def descend(self, loss: Tensor) -> Tensor:
        """One step down the loss; returns it detached."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @contextmanager
    def holding(self, part: Part) -> Iterator[nn.Module]:
        """Within the block the network holds σ or w; without a decomposition they are the same."""
        if part == "sigma" and isinstance(self.optimizer, Decomposition):
            with self.optimizer.sigma_weights():
                yield self.network
        else:
            yield self.network

    def parts(self) -> dict[Tensor, dict[str, Tensor]]:
        """σ, γ and anchor of every weight that is decomposed now."""
        return dict(self.optimizer.state) if isinstance(self.optimizer, Decomposition) else {}

    def has_gamma(self) -> bool:
        """Whether γ is anything but 0. Asks the device."""
        return any_nonzero([own["gamma"] for own in self.parts().values()])

    @torch.no_grad()
    def drop_gamma(self) -> None:
        """Go on with σ as the network, by plain SGD."""
        if self.decomposition is None or not self.decomposed:
            return
        parts, momenta = self.parts(), self.decomposition.base.state
        for weight in self.network.parameters():
            trained = parts[weight]["sigma"] if weight in parts else weight
            weight.copy_(trained)
            if isinstance(momentum := momenta.get(trained, {}).get("momentum_buffer"), Tensor):
                known = self.plain.state[weight].setdefault("momentum_buffer", torch.empty_like(momentum))
                known.copy_(momentum)
        self.decomposed = False

    @torch.no_grad()
    def restart_decomposition(self) -> None:
        """Begin the decomposition anew from σ: γ = 0, t = 1 in the next epoch."""
        if not isinstance(self.optimizer, Decomposition):
            return
        for weight, own in self.parts().items():
            own["gamma"].zero_()
            weight.copy_(own["sigma"])
        self.optimizer.epoch = 0

    @torch.no_grad()
    def forget_momentum(self) -> None:
        """As if no step had been taken; in place, because a captured step knows momentum by its address."""
        optimizer = self.optimizer.base if isinstance(self.optimizer, Decomposition) else self.optimizer
        for entries in optimizer.state.values():
            if isinstance(momentum := entries.get("momentum_buffer"), Tensor):
                momentum.zero_()

    def tensors(self) -> list[Tensor]:
        """All that a step changes but for momentum; the same tensors whether or not γ was dropped."""
        state = {} if self.decomposition is None else self.decomposition.state
        parts = [tensor for own in state.values() for tensor in own.values()]
        return [*self.network.parameters(), *self.network.buffers(), *parts]


def any_nonzero(tensors: Sequence[Tensor]) -> bool:
    """Whether any element of them is not 0. Asks the device, once."""
    return bool(tensors) and bool(torch.stack([tensor.any() for tensor in tensors]).any())
