"""Co-teaching+: Co-teaching on the samples for which the two networks predict different classes.

Paper: Yu et al., "How does Disagreement Help Generalization against Label Corruption?" (ICML 2019). The first
`init_epoch` epochs are Co-teaching. Then, with D the samples of a batch whose predicted classes differ, each network
selects its ⌊(1 − forget)·|D|⌋ samples of smallest loss within D (all of D if that is none), and the other network
learns from them. The authors start at once on MNIST, after 20 epochs on CIFAR-10 and after 5 on CIFAR-100.
`tnlpad train` starts after 5 epochs on Fashion-MNIST and Food-101, which they did not use, after 20 on digits, and
after a fifth of the epochs on other data.

What the public code adds, and we keep: if the networks agree on a whole batch, both learn from all of it, as long as
epoch × step < 5000. With a start in the first epoch, fresh networks may both predict one class for every image; without
this, they would then never learn again.

How we differ from the public code: the loss of D is the sum over the selected samples, divided by the batch size, so
that a sample counts as much as it does in the first phase. That code divides the sum by the squared number of selected
samples, which is harmless with Adam. SGD with the same learning rate for the mean of one or two samples as for that of
a batch undoes within an epoch what the first phase has learned; `average_over="selected"` does that. The loss is the
cross entropy of the logits, where that code applies softmax twice, and no sample is dropped by its index.
`benchmarks/coteaching_plus.py` changes these one at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tnlpad.methods.coteaching import Coteaching
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, masked_mean, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CoteachingPlusConfig(Forgetting):
    """Length of the first phase, and how much a sample of the second one counts."""

    init_epoch: int = 20  # epochs of plain Co-teaching at the start
    whole_batch_until: int = 5000  # while epoch × step is less than this, a batch without disagreement counts whole
    average_over: Literal["batch", "selected"] = "batch"  # what the sum of the selected losses is divided by


class CoteachingPlus(Coteaching):
    """Co-teaching, restricted to samples on which the networks disagree."""

    def __init__(self, config: CoteachingPlusConfig, setup: Setup) -> None:
        if config.init_epoch < 0:
            raise ValueError(f"init_epoch={config.init_epoch}: must be 0 or more epochs of plain Co-teaching.")
        if config.init_epoch >= setup.epochs:
            raise ValueError(
                f"init_epoch={config.init_epoch}: all {setup.epochs} epochs would be plain Co-teaching. Train for more "
                f"epochs, or start earlier, for example with init_epoch={setup.epochs // 5}."
            )
        if config.average_over not in ("batch", "selected"):
            raise ValueError(f'average_over={config.average_over!r}: choose "batch" or "selected".')
        super().__init__(config, setup, "coteaching_plus")
        self.init_epoch, self.whole_batch_until = config.init_epoch, config.whole_batch_until
        self.per_batch = config.average_over == "batch"
        device = setup.labels.device
        self.whole_batch = torch.ones((), dtype=torch.bool, device=device)
        self.epoch, self.steps = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))

    def begin_epoch(self, clock: Clock) -> None:
        super().begin_epoch(clock)
        self.whole_batch.fill_(clock.epoch <= self.init_epoch)
        self.epoch.fill_(clock.epoch)
        self.steps.zero_()

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        loss = super().step(batch, clock)
        self.steps += 1
        return loss

    def select(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> Sequence[Tensor]:
        candidates = (logits[0].argmax(1) != logits[1].argmax(1)) | self.whole_batch
        all_agreed = ~candidates.any() & (self.epoch * self.steps < self.whole_batch_until)
        return [smallest(loss, self.forget, candidates) | all_agreed for loss in losses]

    def mean(self, losses: Tensor, selected: Tensor) -> Tensor:
        mean = masked_mean(losses, selected)
        if not self.per_batch:
            return mean
        return torch.where(self.whole_batch, mean, losses.masked_fill(~selected, 0).mean())

    def tensors(self) -> dict[str, Tensor]:
        own = {"whole_batch": self.whole_batch, "epoch": self.epoch, "steps": self.steps}
        return {**own, **super().tensors()}
