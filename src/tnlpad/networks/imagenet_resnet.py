"""ResNet-50 for large images (Clothing1M at 224x224, Food-101 at 112x112).

Paper: He et al., "Deep Residual Learning for Image Recognition". A 7x7 stem with stride 2 and max-pooling, four stages
of bottleneck blocks, global average pooling and one linear layer.

How we differ from the paper: a block's stride lies on its 3x3 convolution (see `residual.py`), as in the weights that
PyTorch publishes. Modules carry the names of those weights (`conv1`, `layer1.0.downsample.0`, `fc`), so that
`load_pretrained` finds each under its own key. Without them weights start as PyTorch's layers start them.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled
from tnlpad.networks.residual import ThreeConvolutions, shortcut, stage

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
