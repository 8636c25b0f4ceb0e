"""ResNet-50 for large images (Clothing1M at 224x224, Food-101 at 112x112).

Paper: He et al., "Deep Residual Learning for Image Recognition". A 7x7 stem with stride 2 and max-pooling, four stages
of bottleneck blocks, global average pooling and one linear layer.

How we differ from the paper: a block's stride lies on its 3x3 convolution, not on the first 1x1 ("v1.5"), as in the
weights that PyTorch publishes. Modules carry the names of those weights (`conv1`, `layer1.0.downsample.0`, `fc`), so
that `load_pretrained` finds each under its own key. Without them weights start as PyTorch's layers start them.
"""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

STEM_CHANNELS = 64


class Bottleneck(nn.Module):
    """1x1 down, 3x3 with the stride, 1x1 up to four times the channels, beside the shortcut."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample = nn.Sequential()  # empty: the identity
        if stride != 1 or in_channels != out_channels:
            self.downsample.append(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after the sum and ReLU."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + self.downsample(x))


class ImageNetResNet(nn.Module):
    """Stem with max-pooling, four stages of bottleneck blocks, average pooling, one linear layer."""

    def __init__(
        self, blocks_per_stage: tuple[int, int, int, int], *, num_classes: int = 1000, in_channels: int = 3
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, STEM_CHANNELS, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(STEM_CHANNELS)
        first, second, third, fourth = blocks_per_stage
        self.layer1 = _stage(STEM_CHANNELS, 64, 1, first)
        self.layer2 = _stage(256, 128, 2, second)
        self.layer3 = _stage(512, 256, 2, third)
        self.layer4 = _stage(1024, 512, 2, fourth)
        self.fc = nn.Linear(2048, num_classes)

    @property
    def classifier(self) -> nn.Linear:
        """The last layer, under the name it has in the other networks."""
        return self.fc

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        maps = F.relu(self.bn1(self.conv1(images)))
        maps = F.max_pool2d(maps, 3, stride=2, padding=1)
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        return F.adaptive_avg_pool2d(maps, 1).flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row per image."""
        return cast(Tensor, self.fc(self.features(images)))


def _stage(in_channels: int, channels: int, stride: int, blocks: int) -> nn.Sequential:
    stage = nn.Sequential(Bottleneck(in_channels, channels, stride))
    for _ in range(blocks - 1):
        stage.append(Bottleneck(channels * Bottleneck.expansion, channels, 1))
    return stage


def imagenet_resnet50(*, num_classes: int = 1000, in_channels: int = 3) -> ImageNetResNet:
    """ResNet-50 for large images: bottleneck blocks 3, 4, 6, 3."""
    return ImageNetResNet((3, 4, 6, 3), num_classes=num_classes, in_channels=in_channels)
