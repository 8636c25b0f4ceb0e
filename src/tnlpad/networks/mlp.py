"""Two hidden layers for rows of numbers: the network for tabular data.

Not from a paper. Layer normalisation keeps no running statistics, so that σ and w = σ + γ are each judged by their own
activations. Images are taken as rows of their pixels.
"""

from typing import cast

from torch import Tensor, nn

from tnlpad.networks.network import Network


class MLP(Network):
    """Two hidden layers with layer normalisation, a linear classifier."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 1, image_size: int = 1, hidden: int = 128) -> None:
        super().__init__()
        self.inputs = in_channels * image_size**2
        self.body = nn.Sequential(
            nn.Linear(self.inputs, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
        )
        self.classifier = nn.Linear(hidden, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per sample."""
        rows = images.flatten(1)
        if rows.shape[1] != self.inputs:
            raise ValueError(
                f"Samples have {rows.shape[1]} numbers, but this MLP takes {self.inputs}: build it with in_channels "
                "and image_size as the data have them."
            )
        return cast(Tensor, self.body(rows))


def mlp(*, num_classes: int = 10, in_channels: int = 1, image_size: int = 1) -> MLP:
    """For tables, `in_channels` is the number of columns."""
    return MLP(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
