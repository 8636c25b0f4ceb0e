"""TNLPAD: every weight is a sum σ + γ, trained together, judged by σ alone.

Paper: "Tackling Noisy Labels with Network Parameter Additive Decomposition", equation for the objective in
`tnlpad.core.decomposition`. The switches are the rows of its ablation table and the families of its β2 figure.

How we differ from the public code: the epoch is chosen by the noisy validation accuracy of σ and not of w (the paper's
words; `judge_by="sigma_chosen_by_w"` is the code's way), and shortcut convolutions that no forward pass uses are not
built.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.penalties import Constant, ExponentialDecay, LinearDecay, LinearGrowth, Penalty, PowerDecay, StepDecay
from tnlpad.core.split import Init, parameter_groups
from tnlpad.methods.forward import mean_loss
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.types import Batch, Clock

GammaFamily = Literal["power", "constant", "linear", "exponential", "step"]
Part = Literal["sigma", "w"]  # what a decomposed network holds


@dataclass(frozen=True, kw_only=True)
class TnlpadConfig:
    """The penalties' strengths, and what to leave out for the ablation."""

    c1: float = 1e-4  # β1(t) = c1·t
    c2: float = 0.6  # β2(t) = t^(−c2)
    gamma_family: GammaFamily = "power"  # of β2; c2 is for the first
    sigma_constraint: bool = True  # whether there is a β1
    gamma_constraint: bool = True  # whether there is a β2
    init: Init = "independent"  # of γ: 0, a draw of its own, or a random part of w
    gamma_update: Literal["subgradient", "proximal"] = "subgradient"
    norm: Literal["global", "tensor"] = "global"  # over all weights, or one for each tensor
    judge_by: Literal["auto", "sigma", "w", "sigma_chosen_by_w"] = "auto"  # σ, but w where nothing constrains γ

    def gamma_penalty(self, epochs: int) -> Penalty | None:
        """β2 of the family; all of them start at 1."""
        if not self.gamma_constraint:
            return None
        families: dict[GammaFamily, Penalty] = {
            "power": PowerDecay(self.c2),
            "constant": Constant(1.0),
            "linear": LinearDecay(epochs),
            "exponential": ExponentialDecay(),
            "step": StepDecay(),
        }
        if self.gamma_family not in families:
            raise ValueError(f"gamma_family={self.gamma_family!r}: choose one of {', '.join(families)}.")
        return families[self.gamma_family]

    def reported(self) -> Part:
        """Which weights to judge by: with γ unconstrained σ means nothing, so the paper then uses w."""
        if self.judge_by not in ("auto", "sigma", "w", "sigma_chosen_by_w"):
            raise ValueError(f'judge_by={self.judge_by!r}: choose "auto", "sigma", "w" or "sigma_chosen_by_w".')
        by_w = self.judge_by == "w" or (self.judge_by == "auto" and not self.gamma_constraint)
        return "w" if by_w else "sigma"

    def chosen_by(self) -> Part:
        """Which weights choose the epoch."""
        return "w" if self.judge_by == "sigma_chosen_by_w" else self.reported()


class Tnlpad:
    """One network, one decomposing optimizer."""

    def __init__(self, config: TnlpadConfig, setup: Setup) -> None:
        self.network = setup.network(0)
        self.optimizer = decomposition(config, self.network, setup, config.gamma_penalty(setup.epochs))
        self.optimizers: Sequence[Optimizer] = [self.optimizer]
        self.reported, self.chosen_by = (config.reported(),), (config.chosen_by(),)
        views: dict[str, Callable[[], AbstractContextManager[nn.Module]]] = {
            "sigma": self._sigma,
            "w": lambda: nullcontext(self.network),
        }
        self.judged: Judged = {name: views[name] for name in sorted(views, key=lambda name: name not in self.reported)}
        self.selections: Mapping[str, Tensor] = {}

    @contextmanager
    def _sigma(self) -> Iterator[nn.Module]:
        with self.optimizer.sigma_weights():
            yield self.network

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        self.optimizer.start_epoch()

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        loss = mean_loss(self.network, batch.images, batch.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, {})


def decomposition(
    config: TnlpadConfig, network: nn.Module, setup: Setup, gamma_penalty: Penalty | None
) -> Decomposition:
    """The decomposition of a network's weights over SGD."""
    return Decomposition(
        parameter_groups(network, init=config.init, generator=setup.generator),
        torch.optim.SGD,
        sigma_penalty=LinearGrowth(config.c1) if config.sigma_constraint else None,
        gamma_penalty=gamma_penalty,
        gamma_update=config.gamma_update,
        norm=config.norm,
        **setup.sgd,
    )
