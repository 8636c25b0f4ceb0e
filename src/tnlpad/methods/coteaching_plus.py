"""Co-teaching+: Co-teaching on the samples about which the two networks disagree.

Paper: Yu et al., "How does Disagreement Help Generalization against Label Corruption?" (ICML 2019). For `init_epoch`
epochs it is Co-teaching. Then, with D the samples of a batch whose predicted classes differ, each network picks its
⌊(1 − forget)·|D|⌋ samples of smallest loss within D (all of D if that is none), and its peer learns from them. The
authors start at once on MNIST, after 20 epochs on CIFAR-10 and after 5 on CIFAR-100.

How we differ from the public code: the loss is the cross entropy of the logits and a plain mean, where that code takes
a softmax twice and divides twice by the number of samples; no sample is dropped for its index; and where the networks
agree on a whole batch there is no loss in that step, only momentum and weight decay, where that code uses the whole
batch as long as epoch × step < 5000. Expect it to suffer once D is small and mostly wrong labels.
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
from tnlpad.methods.selection import Forgetting, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CoteachingPlusConfig(Forgetting):
    """How many epochs of plain Co-teaching come first."""

    init_epoch: int = 20


class CoteachingPlus:
    """Two networks with an optimizer each."""

    def __init__(self, config: CoteachingPlusConfig, setup: Setup) -> None:
        if config.init_epoch < 0:
            raise ValueError(f"init_epoch={config.init_epoch}: must be 0 or more epochs of plain Co-teaching.")
        if config.init_epoch >= setup.epochs:
            raise ValueError(
                f"init_epoch={config.init_epoch}: a run of {setup.epochs} epochs would be Co-teaching to its end. Give "
                f"it more epochs, or choose it earlier, such as init_epoch={setup.epochs // 5}."
            )
        self.config = config
        self.peers = Peers(config, setup, "coteaching_plus")
        self.optimizers: Sequence[Optimizer] = self.peers.optimizers
        self.judged, self.reported, self.selections = self.peers.judged, NAMES, self.peers.selections
        self.whole_batch = torch.ones((), dtype=torch.bool, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.peers.begin_epoch(clock)
        self.whole_batch.fill_(clock.epoch <= self.config.init_epoch)

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        first, second = self.peers.outputs(batch)
        candidates = (first.argmax(1) != second.argmax(1)) | self.whole_batch
        losses = [F.cross_entropy(logits, batch.labels, reduction="none") for logits in (first, second)]
        return self.peers.exchange(batch, losses, [smallest(loss, self.peers.forget, candidates) for loss in losses])

    def _tensors(self) -> dict[str, Tensor]:
        return {"whole_batch": self.whole_batch, **self.peers.tensors()}

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.peers.networks, self.optimizers, self._tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, self.peers.networks, self.optimizers, self._tensors())
