"""TNLPAD: every weight is a sum σ + γ. Both parts are trained together, and σ alone is evaluated and shipped.

Paper: "Tackling Noisy Labels with Network Parameter Additive Decomposition". The objective is in
`tnlpad.core.decomposition`. The options cover the rows of the paper's ablation table and the curves of its β2 figure.

How we differ from the public code: the epoch is selected by the noisy validation accuracy of σ, as the paper says, not
of w (`judge_by="sigma_chosen_by_w"` is the code's rule). Shortcut convolutions that no forward pass uses are not built.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
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
JudgeBy = Literal["auto", "sigma", "w", "sigma_chosen_by_w"]
Part = Literal["sigma", "w"]  # the weights that a decomposed network is used with


@dataclass(frozen=True, kw_only=True)
class TnlpadConfig:
    """Strengths of the penalties, and switches for the ablation."""

    c1: float = 1e-4  # strength of the penalty on σ: β1(t) = c1·t
    c2: float = 0.6  # decay of the penalty on γ: β2(t) = t^(−c2)
    gamma_family: GammaFamily = "power"  # shape of β2; c2 applies to `power` only
    sigma_constraint: bool = True  # apply the penalty on σ (β1)
    gamma_constraint: bool = True  # apply the penalty on γ (β2)
    init: Init = "independent"  # initial γ: 0, a draw of its own, or a random part of w
    gamma_update: Literal["subgradient", "proximal"] = "subgradient"  # how the penalty on γ is applied
    norm: Literal["global", "tensor"] = "global"  # one norm over all weights, or one per tensor
    judge_by: JudgeBy = "auto"  # weights that are evaluated and saved; auto: σ, or w if `gamma_constraint` is off

    def gamma_penalty(self, epochs: int) -> Penalty | None:
        """Return β2. All shapes start at 1."""
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
        """Return the weights to evaluate. With γ unconstrained σ has no meaning, so the paper then uses w."""
        if self.judge_by not in ("auto", "sigma", "w", "sigma_chosen_by_w"):
            raise ValueError(f'judge_by={self.judge_by!r}: choose "auto", "sigma", "w" or "sigma_chosen_by_w".')
        by_w = self.judge_by == "w" or (self.judge_by != "sigma" and not self.gamma_constraint)
        return "w" if by_w else "sigma"

    def chosen_by(self) -> Part:
        """Return the weights that select the epoch."""
        return "w" if self.judge_by == "sigma_chosen_by_w" else self.reported()


class Tnlpad:
    """One network with a decomposing optimizer."""

    def __init__(self, config: TnlpadConfig, setup: Setup) -> None:
        self.network = setup.network(0)
        penalty = config.gamma_penalty(setup.epochs)
        self.optimizer = decomposition(config, self.network, setup, penalty, working_dtype=setup.working_dtype)
        self.optimizers: Sequence[Optimizer] = [self.optimizer]
        self.reported, self.chosen_by = (config.reported(),), (config.chosen_by(),)
        parts: list[Part] = ["sigma", "w"] if config.reported() == "sigma" else ["w", "sigma"]
        self.judged: Judged = {part: partial(self._using, part) for part in parts}
        self.selections: Mapping[str, Tensor] = {}

    @contextmanager
    def _using(self, part: Part) -> Iterator[nn.Module]:
        with self.optimizer.sigma_weights() if part == "sigma" else nullcontext():
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
    config: TnlpadConfig,
    network: nn.Module,
    setup: Setup,
    gamma_penalty: Penalty | None,
    working_dtype: torch.dtype | None = None,
) -> Decomposition:
    """Return the decomposition of a network's weights, over SGD."""
    return Decomposition(
        parameter_groups(network, init=config.init, generator=setup.generator),
        torch.optim.SGD,
        sigma_penalty=LinearGrowth(config.c1) if config.sigma_constraint else None,
        gamma_penalty=gamma_penalty,
        gamma_update=config.gamma_update,
        norm=config.norm,
        working_dtype=working_dtype,
        **setup.sgd,
    )
