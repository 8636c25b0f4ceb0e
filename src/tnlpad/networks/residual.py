"""What the residual networks share: stages of blocks, the shortcut, and the bottleneck of three convolutions.

Paper: He et al., "Deep Residual Learning for Image Recognition". How we differ: a bottleneck's stride lies on its 3x3
convolution, not on the first 1x1 ("v1.5"), as in the weights that PyTorch publishes.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F


def stage(
    block: Callable[[int, int, int], nn.Module],
    in_channels: int,
    channels: int,
    stride: int,
    blocks: int,
    expansion: int = 1,
) -> nn.Sequential:
    """Blocks of one width, made of (in_channels, channels, stride); the first of them changes the shape.

    A block puts out `expansion` times its channels.
    """
    first = block(in_channels, channels, stride)
    return nn.Sequential(first, *(block(channels * expansion, channels, 1) for _ in range(blocks - 1)))


def shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """The input itself or, where the shape changes, a 1x1 convolution of it with normalisation."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class ThreeConvolutions(nn.Module):
    """1x1, 3x3 with the stride, 1x1, each normalised: what a bottleneck adds to its shortcut."""

    def __init__(self, in_channels: int, channels: int, out_channels: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)

    def convolved(self, x: Tensor) -> Tensor:
        """The three convolutions, before the sum."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return cast(Tensor, self.bn3(self.conv3(y)))


class Bottleneck(ThreeConvolutions):
    """1x1 down, 3x3, 1x1 up to four times the channels, beside the shortcut."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int, groups: int = 1) -> None:
        out_channels = channels * self.expansion
        super().__init__(in_channels, channels, out_channels, stride, groups)
        self.shortcut = shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        return F.relu(self.convolved(x) + self.shortcut(x))
