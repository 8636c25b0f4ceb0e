"""The demo's network: two convolutions and two linear layers for 8x8 images, trained in a second or two on one core.

Not from a paper. Group normalisation makes it learn, and memorise, within a minute's budget; unlike batch normalisation
it keeps no running statistics, so that σ and w = σ + γ are each judged by their own activations.

A residual network that two CPU cores train in minutes: the default for people's own images.

Not from a paper: three stages of one basic block each, 32, 64 and 128 channels. Every stage halves the map, and images
above 32 pixels are halved once more by the stem, so that 64x64 costs what 32x32 does. Batch normalisation, as
in the paper's networks, so σ is judged with the statistics of w = σ + γ.
"""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled


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


WIDTHS = (32, 64, 128)
LARGEST_AT_FULL_SIZE = 32


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the first one halves the map."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(in_channels, channels, 1, stride=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class SmallResNet(Network):
    """Stem, three blocks, average pooling, one linear layer."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 3, image_size: int = 32) -> None:
        super().__init__()
        stride = 1 if image_size <= LARGEST_AT_FULL_SIZE else 2
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, WIDTHS[0], 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(WIDTHS[0]),
            nn.ReLU(inplace=True),
        )
        channels = (WIDTHS[0], *WIDTHS)
        self.blocks = nn.Sequential(*(Block(*pair) for pair in pairwise(channels)))
        self.classifier = nn.Linear(WIDTHS[-1], num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        return pooled(self.blocks(self.stem(images)))


def small_resnet(*, num_classes: int = 10, in_channels: int = 3, image_size: int = 32) -> SmallResNet:
    """The network for people's own images unless they choose another."""
    return SmallResNet(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
