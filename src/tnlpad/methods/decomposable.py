"""A network with its optimizer: plain SGD, or the decomposition w = σ + γ while it is active.

The semi-supervised methods and their combinations with TNLPAD share their code; a combination only decomposes the
networks. `drop_gamma` ends the decomposition: σ and its momentum become the network, and γ is discarded. If γ is 0, the
decomposition is plain SGD, and dropping γ changes nothing.
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


class Learner:
    """A network with two optimizers, of which one is in use.

    Args:
        network: Network to train.
        setup: Inputs of the method.
        config: Configuration of the decomposition; None for plain SGD only.
        gamma_penalty: β2, separate from `config` because a method may run it at its own pace.
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
        """The optimizer in use."""
        return self.decomposition if self.decomposition is not None and self.decomposed else self.plain

    def begin_epoch(self) -> None:
        """Switch to training mode and advance the penalties by one epoch."""
        self.network.train()
        if isinstance(self.optimizer, Decomposition):
            self.optimizer.start_epoch()

    @contextmanager
    def using(self, part: Part) -> Iterator[nn.Module]:
        """Within the block, the network's weights are σ or w. Without a decomposition they are the same."""
        if part == "sigma" and isinstance(self.optimizer, Decomposition):
            with self.optimizer.sigma_weights():
                yield self.network
        else:
            yield self.network

    def parts(self) -> dict[Tensor, dict[str, Tensor]]:
        """Return σ, γ and anchor of every weight that is decomposed now."""
        return dict(self.optimizer.state) if isinstance(self.optimizer, Decomposition) else {}

    def has_gamma(self) -> bool:
        """Return whether γ has any nonzero element. Waits for the device."""
        return any_nonzero([own["gamma"] for own in self.parts().values()])

    @torch.no_grad()
    def drop_gamma(self) -> None:
        """Make σ the network's weights and continue with plain SGD."""
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
        """Restart the decomposition from σ: γ = 0, and t = 1 in the next epoch."""
        if not isinstance(self.optimizer, Decomposition):
            return
        for weight, own in self.parts().items():
            own["gamma"].zero_()
            weight.copy_(own["sigma"])
        self.optimizer.epoch = 0

    @torch.no_grad()
    def reset_momentum(self) -> None:
        """Set momentum to 0, in place, because a captured step refers to it by address."""
        optimizer = self.optimizer.base if isinstance(self.optimizer, Decomposition) else self.optimizer
        for entries in optimizer.state.values():
            if isinstance(momentum := entries.get("momentum_buffer"), Tensor):
                momentum.zero_()

    def tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes except momentum; the same ones before and after γ is dropped."""
        state = {} if self.decomposition is None else self.decomposition.state
        parts = [tensor for own in state.values() for tensor in own.values()]
        return [*self.network.parameters(), *self.network.buffers(), *parts]


def any_nonzero(tensors: Sequence[Tensor]) -> bool:
    """Return whether any element of any tensor is not 0. Waits for the device once."""
    return bool(tensors) and bool(torch.stack([tensor.any() for tensor in tensors]).any())
