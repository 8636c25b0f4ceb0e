"""A small classifier on features of a pretrained network, of texts or of tables. Not from a paper.

One hidden layer with dropout. Its size and dropout were chosen by benchmarks/head_settings.py.
"""

from typing import cast

from torch import Tensor, nn

from tnlpad.networks.network import Network

HIDDEN, DROPOUT = 256, 0.25


class Head(Network):
    """A hidden layer and a linear classifier on rows of features.

    Args:
        num_classes: Number of classes.
        in_channels: Number of features.
        hidden: Width of the hidden layer.
        dropout: Share of it that is dropped in training.
    """

    def __init__(
        self, *, num_classes: int = 10, in_channels: int = 256, hidden: int = HIDDEN, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.inputs = in_channels
        self.hidden = nn.Sequential(nn.Linear(in_channels, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.classifier = nn.Linear(hidden, num_classes)

    def features(self, images: Tensor) -> Tensor:
        rows = images.flatten(1)
        if rows.shape[1] != self.inputs:
            raise ValueError(f"Samples have {rows.shape[1]} numbers, but this head takes {self.inputs}.")
        return cast(Tensor, self.hidden(rows))


def head(*, num_classes: int = 10, in_channels: int = 256) -> Head:
    """Build the default network for features."""
    return Head(num_classes=num_classes, in_channels=in_channels)
