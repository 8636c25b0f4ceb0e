"""A small classifier on features of a pretrained network or of texts. Not from a paper.

One hidden layer with dropout. In training every row is mixed with another row of its batch, of which at most half, and
keeps its own label, so that every method can train it: labels mixed in proportion would need methods that take them.
"""

from typing import cast

import torch
from torch import Tensor, nn

from tnlpad.networks.network import Network

HIDDEN, DROPOUT = 256, 0.5


class Head(Network):
    """A hidden layer and a linear classifier on rows of features."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 256) -> None:
        super().__init__()
        self.inputs = in_channels
        self.hidden = nn.Sequential(nn.Linear(in_channels, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT))
        self.classifier = nn.Linear(HIDDEN, num_classes)

    def features(self, images: Tensor) -> Tensor:
        rows = images.flatten(1)
        if rows.shape[1] != self.inputs:
            raise ValueError(f"Samples have {rows.shape[1]} numbers, but this head takes {self.inputs}.")
        if self.training:
            own = 0.5 + 0.5 * torch.rand(len(rows), 1, device=rows.device)
            rows = own * rows + (1 - own) * rows[torch.randperm(len(rows), device=rows.device)]
        return cast(Tensor, self.hidden(rows))


def head(*, num_classes: int = 10, in_channels: int = 256) -> Head:
    """Build the default network for features."""
    return Head(num_classes=num_classes, in_channels=in_channels)
