"""Residual networks for small images (28x28, 32x32): ResNet-18, 34 and 50.

Paper: He et al., "Deep Residual Learning for Image Recognition", in the shape used for CIFAR: a 3x3 stem with stride 1
and no max-pooling, four stages of 64, 128, 256 and 512 channels with strides 1, 2, 2, 2, a 1x1 convolution with
normalisation on the shortcut where the shape changes, global average pooling and one linear layer.

How we differ from the authors of the decomposition: they build the 1x1 shortcut in every block and leave most of them
unused; here it exists only where it is used. Their stem has no padding (`stem_padding=0`, maps of 30, 15, 8, 4 for
32x32 images); ours has by default. Weights start as PyTorch's layers start them, as theirs do.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled
from tnlpad.networks.residual import Bottleneck, shortcut, stage

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, stride of the first block


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the shortcut."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = shortcut(in_channels, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(Network):
    """Stem, four stages of blocks, average pooling, one linear layer."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        blocks_per_stage: tuple[int, int, int, int],
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        stem_padding: int = 1,
    ) -> None:
        super().__init__()
        if stem_padding not in (0, 1):
            raise ValueError(
                f"stem_padding={stem_padding!r}: choose 1 (the map keeps its size) or 0 (the decomposition's authors)."
            )
        channels = STAGES[0][0]
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, padding=stem_padding, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        self.stages = nn.Sequential()
        for (width, stride), blocks in zip(STAGES, blocks_per_stage, strict=True):
            self.stages.append(stage(block, channels, width, stride, blocks, block.expansion))
            channels = width * block.expansion
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        return pooled(self.stages(self.stem(images)))


def resnet18(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """ResNet-18: basic blocks 2, 2, 2, 2."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)


def resnet34(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """ResNet-34: basic blocks 3, 4, 6, 3."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)


def resnet50(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """ResNet-50: bottleneck blocks 3, 4, 6, 3."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)
