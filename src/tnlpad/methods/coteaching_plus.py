"""Co-teaching+: Co-teaching on the samples for which the two networks predict different classes.

Paper: Yu et al., "How does Disagreement Help Generalization against Label Corruption?" (ICML 2019). The first
`init_epoch` epochs are Co-teaching. Then, with D the samples of a batch whose predicted classes differ, each network
selects its ⌊(1 − forget)·|D|⌋ samples of smallest loss within D (all of D if that is none), and the other network
learns from them. The authors start at once on MNIST, after 20 epochs on CIFAR-10 and after 5 on CIFAR-100.

How we differ from the public code: the loss is the plain mean of the cross entropy of the logits. That code applies
softmax twice and divides twice by the number of samples. We do not drop samples by their index. If the networks agree
on a whole batch, the step has no loss, only momentum and weight decay; that code uses the whole batch while epoch ×
step < 5000. Accuracy suffers once D is small and its labels are mostly wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tnlpad.methods.coteaching import Coteaching
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CoteachingPlusConfig(Forgetting):
    """Length of the first phase."""

    init_epoch: int = 20  # epochs of plain Co-teaching at the start


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
        super().__init__(config, setup, "coteaching_plus")
        self.init_epoch = config.init_epoch
        self.whole_batch = torch.ones((), dtype=torch.bool, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        super().begin_epoch(clock)
        self.whole_batch.fill_(clock.epoch <= self.init_epoch)

    def select(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> Sequence[Tensor]:
        candidates = (logits[0].argmax(1) != logits[1].argmax(1)) | self.whole_batch
        return [smallest(loss, self.forget, candidates) for loss in losses]

    def tensors(self) -> dict[str, Tensor]:
        return {"whole_batch": self.whole_batch, **super().tensors()}
