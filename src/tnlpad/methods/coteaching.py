"""Co-teaching: two networks, each trained on the samples the other finds easy.

Paper: Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels" (NeurIPS 2018). In
every batch each network picks its ⌊(1 − forget)·B⌋ samples of smallest loss, and its peer learns from them.

How we differ from the public code: the loss is the plain mean over the picked samples. That code divides the mean by
their number once more, which Adam hides and SGD would not survive. A batch of which nothing would be kept is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.peers import NAMES, Peers
from tnlpad.methods.protocol import Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import Schedule, forget_rate, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CoteachingConfig:
    """How fast the forget rate rises to the noise rate."""

    gradual_epochs: int = 10
    schedule: Schedule = "code"


class Coteaching:
    """Two networks with an optimizer each."""

    def __init__(self, config: CoteachingConfig, setup: Setup) -> None:
        self.config = config
        self.noise_rate = setup.required_noise_rate("coteaching")
        self.peers = Peers(setup)
        self.optimizers: Sequence[Optimizer] = self.peers.optimizers
        self.judged, self.reported, self.selections = self.peers.judged, NAMES, self.peers.selections
        self.forget = torch.zeros((), dtype=torch.float64, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.peers.begin_epoch()
        self.forget.fill_(forget_rate(clock.epoch, self.noise_rate, self.config.gradual_epochs, self.config.schedule))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        losses = [F.cross_entropy(logits, batch.labels, reduction="none") for logits in self.peers.outputs(batch)]
        return self.peers.exchange(batch, losses, [smallest(loss, self.forget) for loss in losses])

    def _tensors(self) -> dict[str, Tensor]:
        return {"forget": self.forget, **self.selections}

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.peers.networks, self.optimizers, self._tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, self.peers.networks, self.optimizers, self._tensors())
