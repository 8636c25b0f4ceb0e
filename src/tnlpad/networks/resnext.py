"""ResNeXt-29 for small images: residual blocks whose 3x3 convolution works in groups.

Paper: Xie et al., "Aggregated Residual Transformations for Deep Neural Networks". "32x4d" is 32 groups of 4 channels in
the first stage. Three stages of three blocks with strides 1, 2, 2; the width of a group doubles from stage to stage,
and a block puts out twice the channels of its groups together.

How we differ from the paper: the stem is a 1x1 convolution to 64 channels, not 3x3, and the output of a block grows
with its groups instead of staying at 256, 512 and 1024, as in the variant commonly trained on CIFAR. Which one the
paper of the decomposition used is not stated; 32x4d is assumed. Weights start as PyTorch's layers start them.
"""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

STEM_CHANNELS = 64
STRIDES = (1, 2, 2)  # of the first block of each stage
BLOCKS_PER_STAGE = 3


class GroupedBlock(nn.Module):
    """1x1, grouped 3x3, 1x1 up to twice the channels, beside the shortcut."""

    expansion = 2

    def __init__(self, in_channels: int, channels: int, groups: int, stride: int) -> None:
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential()  # empty: the identity
        if stride != 1 or in_channels != out_channels:
            self.shortcut.append(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + self.shortcut(x))


class ResNeXt(nn.Module):
    """Stem, three stages of blocks, average pooling, one linear layer."""

    def __init__(self, *, cardinality: int, width: int, num_classes: int = 10, in_channels: int = 3) -> None:
        super().__init__()
        channels = STEM_CHANNELS
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.stages = nn.Sequential()
        for number, stride in enumerate(STRIDES):
            inner = cardinality * width * 2**number
            stage = nn.Sequential()
            for position in range(BLOCKS_PER_STAGE):
                stage.append(GroupedBlock(channels, inner, cardinality, stride if position == 0 else 1))
                channels = inner * GroupedBlock.expansion
            self.stages.append(stage)
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        maps = self.stages(self.stem(images))
        return F.adaptive_avg_pool2d(maps, 1).flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row per image."""
        return cast(Tensor, self.classifier(self.features(images)))


def resnext29_32x4d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """ResNeXt-29 with 32 groups of 4 channels."""
    return ResNeXt(cardinality=32, width=4, num_classes=num_classes, in_channels=in_channels)


def resnext29_2x64d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """ResNeXt-29 with 2 groups of 64 channels."""
    return ResNeXt(cardinality=2, width=64, num_classes=num_classes, in_channels=in_channels)


def resnext29_4x64d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """ResNeXt-29 with 4 groups of 64 channels."""
    return ResNeXt(cardinality=4, width=64, num_classes=num_classes, in_channels=in_channels)
