"""The learning rate as an explicit function of the epoch; no scheduler object, so nothing hidden to restore."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch.optim import Optimizer

DecayTakesEffect = Literal["in", "after"]


def learning_rate(
    epoch: int, initial: float, milestones: Sequence[int], factor: float, takes_effect: DecayTakesEffect = "in"
) -> float:
    """The rate of a 1-based epoch: `initial`, times `factor` for every milestone reached.

    "decayed at the 40th epoch" takes effect in epoch 40 in the authors' runs, since their torch stepped the scheduler
    before each epoch; "after" is the conventional reading, from epoch 41 on.
    """
    late = 0 if takes_effect == "in" else 1
    return initial * factor ** sum(epoch >= milestone + late for milestone in milestones)


def set_learning_rate(optimizers: Sequence[Optimizer], rate: float) -> None:
    """Write the rate into every group, times its `lr_scale`; a tensor is filled, since a graph may hold it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            value = rate * group.get("lr_scale", 1.0)
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value
