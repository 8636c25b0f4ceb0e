"""Problems to compute by hand.

With one-hot images sample i has the logits (weight[0, i], weight[1, i]). A sample of label 0 with logits (m, 0) has
p = 1/(1 + e^−m) for its label: ln 9 → 0.9, ln 3 → 0.75, 0 → 0.5, −ln 3 → 0.25, and its loss moves m by (1 − p) per step
of 1.
"""

import math

import torch
from torch import nn

from tnlpad.methods import Method, Setup
from tnlpad.types import Batch, Clock

LN3, LN9 = math.log(3), math.log(9)


def table(margins: list[float]) -> nn.Linear:
    network = nn.Linear(len(margins), 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        network.weight.zero_()
        network.weight[0] = torch.tensor(margins)
    return network


def table_setup(*margins: list[float], **changes: object) -> Setup:
    """Return a Setup with one table per network, learning rate 1, all labels 0, and a noise rate of 0.5."""
    options = {
        "network": lambda k: table(margins[k]),
        "sgd": {"lr": 1.0},
        "labels": torch.zeros(len(margins[0]), dtype=torch.int64),
        "num_classes": 2,
        "epochs": 1,
        "noise_rate": 0.5,
        "generator": torch.Generator(),
        **changes,
    }
    return Setup(**options)


def table_batch(samples: int) -> Batch:
    return Batch(
        index=torch.arange(samples),
        images=torch.eye(samples, dtype=torch.float64),
        labels=torch.zeros(samples, dtype=torch.int64),
    )


def one_step(method: Method, samples: int) -> float:
    clock = Clock(epoch=1, epochs=1)
    method.begin_epoch(clock)
    return method.step(table_batch(samples), clock).item()


def moved(network: nn.Module, margins: list[float]) -> list[float]:
    """Return the change of each sample's logit of class 0; that of class 1 changed by the opposite."""
    weight = network.weight.detach()
    change = weight[0] - torch.tensor(margins)
    assert torch.allclose(weight[1], -change)
    return change.tolist()
