"""The demo's network: two convolutions and two linear layers for 8x8 images, trained in a second or two on one core.

Not from a paper. Group normalisation makes it learn, and memorise, within a minute's budget; unlike batch normalisation
it keeps no running statistics, so that σ and w = σ + γ are each judged by their own activations.
"""

from typing import cast

from torch import Tensor, nn

from tnlpad.networks.network import Network


class SmallCNN(Network):
    """Two strided 3x3 convolutions, a hidden layer, a linear classifier."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 1, width: int = 16, hidden: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(
            # Strides instead of pooling: max-pooling cost a quarter of a step at this size.
            nn.Conv2d(in_channels, width, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(4, width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(4, 2 * width),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(2 * 2 * 2 * width, hidden),  # 8x8 pixels have become 2x2
            nn.ReLU(inplace=True),
        )
        self.classifier = nn.Linear(hidden, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        # Two halvings must leave 2x2; the linear layer's own complaint would name two unknown matrices.
        height, width = images.shape[-2:]
        if not (4 < height <= 8 and 4 < width <= 8):
            raise ValueError(
                f"The images are {height}x{width}, but SmallCNN is made for 8x8: resize them, or use lenet or resnet18."
            )
        return cast(Tensor, self.body(images))


def small_cnn(*, num_classes: int = 10, in_channels: int = 1) -> SmallCNN:
    """The network of `tnlpad demo`."""
    return SmallCNN(num_classes=num_classes, in_channels=in_channels)
