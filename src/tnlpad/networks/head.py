"""A small classifier on features of a pretrained network or of texts. Not from a paper.

One hidden layer with dropout. In training every row is mixed with another row of its batch, of which at most half, and
keeps its own label, so that every method can train it: labels mixed in proportion would need methods that take them.
"""

from typing import cast

import torch
from torch import Tensor, nn

from tnlpad.networks.network import Network

HIDDEN, DROPOUT, MIXED = 256, 0.5, 0.5


class Head(Network):
    """A hidden layer and a linear classifier on rows of features.

    Args:
        num_classes: Number of classes.
        in_channels: Number of features.
        hidden: Width of the hidden layer.
        dropout: Share of it that is dropped in training.
        mixed: Largest share of another row in a row; 0 mixes none.
    """

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 256,
        hidden: int = HIDDEN,
        dropout: float = DROPOUT,
        mixed: float = MIXED,
    ) -> None:
        super().__init__()
        self.inputs, self.mixed = in_channels, mixed
        self.hidden = nn.Sequential(nn.Linear(in_channels, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.classifier = nn.Linear(hidden, num_classes)

    def features(self, images: Tensor) -> Tensor:
        rows = images.flatten(1)
        if rows.shape[1] != self.inputs:
            raise ValueError(f"Samples have {rows.shape[1]} numbers, but this head takes {self.inputs}.")
        if self.training and self.mixed:
            other = self.mixed * torch.rand(len(rows), 1, device=rows.device)
            rows = (1 - other) * rows + other * rows[torch.randperm(len(rows), device=rows.device)]
        return cast(Tensor, self.hidden(rows))


def head(*, num_classes: int = 10, in_channels: int = 256) -> Head:
    """Build the default network for features."""
    return Head(num_classes=num_classes, in_channels=in_channels)
