"""Co-teaching: two networks, each trained on the samples the other finds easy.

Paper: Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels" (NeurIPS 2018). In
every batch each network picks its ⌊(1 − forget)·B⌋ samples of smallest loss, and its peer learns from them. The forget
rate rises evenly from 0 in the first epoch to the noise rate in the tenth.

How we differ from the public code: the loss is the plain mean over the picked samples. That code divides the mean by
their number once more, which Adam hides and SGD would not survive. A batch of which nothing would be kept is kept. That
code, and those of Co-teaching+, JoCoR and SIGUA, have the same forget rates and begin with that of the second epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.peers import NAMES, Peers
from tnlpad.methods.protocol import Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import Forgetting, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CoteachingConfig(Forgetting):
    """Nothing else to choose."""


class Coteaching:
    """Two networks with an optimizer each."""

    def __init__(self, config: CoteachingConfig, setup: Setup) -> None:
        self.peers = Peers(config, setup, "coteaching")
        self.optimizers: Sequence[Optimizer] = self.peers.optimizers
        self.judged, self.reported, self.selections = self.peers.judged, NAMES, self.peers.selections

    def begin_epoch(self, clock: Clock) -> None:
        self.peers.begin_epoch(clock)

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        losses = [F.cross_entropy(logits, batch.labels, reduction="none") for logits in self.peers.outputs(batch)]
        return self.peers.exchange(batch, losses, [smallest(loss, self.peers.forget) for loss in losses])

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.peers.networks, self.optimizers, self.peers.tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, self.peers.networks, self.optimizers, self.peers.tensors())
