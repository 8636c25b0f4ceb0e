"""Residual networks: ResNet-18, 34 and 50 for small images (28x28, 32x32), and ResNet-50 for large ones.

Paper: He et al., "Deep Residual Learning for Image Recognition". The small networks have the shape used for CIFAR: a
3x3 stem with stride 1 and no max-pooling, and stages of 64, 128, 256 and 512 channels. `imagenet_resnet50` (Clothing1M
at 224x224, Food-101 at 112x112) has a 7x7 stem with stride 2 and max-pooling. Its modules have the names of the weights
that PyTorch publishes (`conv1`, `layer1.0.downsample.0`, `fc`), so that `load_pretrained` finds each under its key.

How we differ: a bottleneck's stride is on its 3x3 convolution, not on the first 1x1 ("v1.5"), as in PyTorch's weights.
The authors of the decomposition build the 1x1 shortcut in every block and leave most of them unused; here it exists
only where it is used. Their stem has no padding (`stem_padding=0`, maps of 30, 15, 8, 4 for 32x32 images); ours has
padding by default. Weights have PyTorch's default initialisation, as theirs do.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled

STEM_CHANNELS = 64
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, stride of the first block


def stage(
    block: Callable[[int, int, int], nn.Module],
    in_channels: int,
    channels: int,
    stride: int,
    blocks: int,
    expansion: int = 1,
) -> nn.Sequential:
    """Chain blocks built with (in_channels, channels, stride); the first one changes the shape.

    A block has `expansion` times its channels as outputs.
    """
    first = block(in_channels, channels, stride)
    return nn.Sequential(first, *(block(channels * expansion, channels, 1) for _ in range(blocks - 1)))


def shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """Return the identity or, where the shape changes, a 1x1 convolution with normalisation."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 up to four times the channels, plus the shortcut."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shortcut = shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.residual(x) + self.shortcut(x))

    def residual(self, x: Tensor) -> Tensor:
        """Apply the three convolutions."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return cast(Tensor, self.bn3(self.conv3(y)))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, plus the shortcut."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = shortcut(in_channels, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
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
        return pooled(self.stages(self.stem(images)))


def resnet18(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """Build ResNet-18: basic blocks 2, 2, 2, 2."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)


def resnet34(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """Build ResNet-34: basic blocks 3, 4, 6, 3."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)


def resnet50(*, num_classes: int = 10, in_channels: int = 3, stem_padding: int = 1) -> ResNet:
    """Build ResNet-50: bottleneck blocks 3, 4, 6, 3."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels, stem_padding=stem_padding)


class PublishedBottleneck(Bottleneck):
    """A bottleneck whose shortcut is called `downsample`, as in the published weights."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__(in_channels, channels, stride)
        self.downsample = self.shortcut
        del self.shortcut

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.residual(x) + self.downsample(x))


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
        """The last layer, by its name in the other networks."""
        return self.fc

    def features(self, images: Tensor) -> Tensor:
        maps = F.relu(self.bn1(self.conv1(images)))
        maps = F.max_pool2d(maps, 3, stride=2, padding=1)
        return pooled(self.layer4(self.layer3(self.layer2(self.layer1(maps)))))


def imagenet_resnet50(*, num_classes: int = 1000, in_channels: int = 3) -> ImageNetResNet:
    """Build ResNet-50 for large images: bottleneck blocks 3, 4, 6, 3."""
    return ImageNetResNet((3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels)
