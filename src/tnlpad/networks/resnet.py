"""What the residual networks share: stages of blocks, the shortcut, and the bottleneck of three convolutions.

Paper: He et al., "Deep Residual Learning for Image Recognition". How we differ: a bottleneck's stride lies on its 3x3
convolution, not on the first 1x1 ("v1.5"), as in the weights that PyTorch publishes.

Residual networks for small images (28x28, 32x32): ResNet-18, 34 and 50.

Paper: He et al., "Deep Residual Learning for Image Recognition", in the shape used for CIFAR: a 3x3 stem with stride 1
and no max-pooling, four stages of 64, 128, 256 and 512 channels with strides 1, 2, 2, 2, a 1x1 convolution with
normalisation on the shortcut where the shape changes, global average pooling and one linear layer.

How we differ from the authors of the decomposition: they build the 1x1 shortcut in every block and leave most of them
unused; here it exists only where it is used. Their stem has no padding (`stem_padding=0`, maps of 30, 15, 8, 4 for
32x32 images); ours has by default. Weights start as PyTorch's layers start them, as theirs do.

ResNet-50 for large images (Clothing1M at 224x224, Food-101 at 112x112).

Paper: He et al., "Deep Residual Learning for Image Recognition". A 7x7 stem with stride 2 and max-pooling, four stages
of bottleneck blocks, global average pooling and one linear layer.

How we differ from the paper: a block's stride lies on its 3x3 convolution (see `residual.py`), as in the weights that
PyTorch publishes. Modules carry the names of those weights (`conv1`, `layer1.0.downsample.0`, `fc`), so that
`load_pretrained` finds each under its own key. Without them weights start as PyTorch's layers start them.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled


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


STEM_CHANNELS = 64


class PublishedBottleneck(ThreeConvolutions):
    """The bottleneck of `residual.py`, its shortcut under the name that the published weights have for it."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        out_channels = channels * self.expansion
        super().__init__(in_channels, channels, out_channels, stride)
        self.downsample = shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        return F.relu(self.convolved(x) + self.downsample(x))


class ImageNetResNet(Network):
    """Stem with max-pooling, four stages of bottleneck blocks, average pooling, one linear layer."""

    def __init__(
        self, blocks_per_stage: tuple[int, int, int, int], *, num_classes: int = 1000, in_channels: int = 3
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, STEM_CHANNELS, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(STEM_CHANNELS)
        first, second, third, fourth = blocks_per_stage
        expansion = PublishedBottleneck.expansion
        self.layer1 = stage(PublishedBottleneck, STEM_CHANNELS, 64, 1, first, expansion)
        self.layer2 = stage(PublishedBottleneck, 256, 128, 2, second, expansion)
        self.layer3 = stage(PublishedBottleneck, 512, 256, 2, third, expansion)
        self.layer4 = stage(PublishedBottleneck, 1024, 512, 2, fourth, expansion)
        self.fc = nn.Linear(2048, num_classes)

    @property
    def classifier(self) -> nn.Linear:
        """The last layer, under the name it has in the other networks."""
        return self.fc

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        maps = F.relu(self.bn1(self.conv1(images)))
        maps = F.max_pool2d(maps, 3, stride=2, padding=1)
        return pooled(self.layer4(self.layer3(self.layer2(self.layer1(maps)))))


def imagenet_resnet50(*, num_classes: int = 1000, in_channels: int = 3) -> ImageNetResNet:
    """ResNet-50 for large images: bottleneck blocks 3, 4, 6, 3."""
    return ImageNetResNet((3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels)
