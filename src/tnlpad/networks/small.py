"""Small networks of our own, trained in seconds or minutes on a CPU. None is from a paper.

`small_cnn`, for 8x8 images, and `mlp`, for tables, have group and layer normalisation. Unlike batch normalisation these
keep no running statistics, so σ and w = σ + γ are each evaluated with their own activations.

`small_resnet` is the default for user images: three stages of one basic block each, with 32, 64 and 128
channels. Every stage halves the map, and the stem halves images above 32 pixels once more, so 64x64 costs what 32x32
does. It has batch normalisation, as the paper's networks do, so σ is evaluated with the statistics of w.
"""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled

WIDTHS = (32, 64, 128)
LARGEST_AT_FULL_SIZE = 32


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
        # Two halvings must leave 2x2. The linear layer's own error would name two matrices that no user knows.
        height, width = images.shape[-2:]
        if not (4 < height <= 8 and 4 < width <= 8):
            raise ValueError(
                f"The images are {height}x{width}, but SmallCNN takes 8x8: resize them, or use lenet or resnet18."
            )
        return cast(Tensor, self.body(images))


def small_cnn(*, num_classes: int = 10, in_channels: int = 1) -> SmallCNN:
    """Build the network of `tnlpad demo`."""
    return SmallCNN(num_classes=num_classes, in_channels=in_channels)


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
        return pooled(self.blocks(self.stem(images)))


def small_resnet(*, num_classes: int = 10, in_channels: int = 3, image_size: int = 32) -> SmallResNet:
    """Build the default network for user images."""
    return SmallResNet(num_classes=num_classes, in_channels=in_channels, image_size=image_size)


class MLP(Network):
    """Two hidden layers with layer normalisation, a linear classifier. Images are flattened."""

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
        rows = images.flatten(1)
        if rows.shape[1] != self.inputs:
            raise ValueError(
                f"Samples have {rows.shape[1]} numbers, but this MLP takes {self.inputs}: build it with the "
                "in_channels and image_size of the data."
            )
        return cast(Tensor, self.body(rows))


def mlp(*, num_classes: int = 10, in_channels: int = 1, image_size: int = 1) -> MLP:
    """Build an MLP; for tables, `in_channels` is the number of columns."""
    return MLP(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
