"""Wide residual networks for small images: WRN-28-k has 28 layers and is k times as wide.

Paper: Zagoruyko and Komodakis, "Wide Residual Networks". A 3x3 stem of 16 channels, three stages of four pre-activation
blocks with 16k, 32k and 64k channels and strides 1, 2, 2, a last normalisation and ReLU, global average pooling and one
linear layer; no biases in convolutions, no dropout.

How we differ: weights have PyTorch's default initialisation; the paper uses that of He et al. The paper of the
decomposition does not state its k; we assume 10, the usual one.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled
from tnlpad.networks.preact_resnet import PreActBlock
from tnlpad.networks.resnet import stage

STEM_CHANNELS = 16
STAGES = ((16, 1), (32, 2), (64, 2))  # channels before widening, stride of the first block
BLOCKS_PER_STAGE = 4  # the 28 layers: the stem, two convolutions in each of 12 blocks, three shortcuts


class WideResNet(Network):
    """Stem, three stages of blocks, normalisation, average pooling, one linear layer."""

    def __init__(self, *, widen: int, num_classes: int = 10, in_channels: int = 3) -> None:
        super().__init__()
        channels = STEM_CHANNELS
        self.stem = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.stages = nn.Sequential()
        for width, stride in STAGES:
            self.stages.append(stage(PreActBlock, channels, widen * width, stride, BLOCKS_PER_STAGE))
            channels = widen * width
        self.bn = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        return pooled(F.relu(self.bn(self.stages(self.stem(images)))))


def wide_resnet28_2(*, num_classes: int = 10, in_channels: int = 3) -> WideResNet:
    """Build WRN-28-2, small enough for quick trials."""
    return WideResNet(widen=2, num_classes=num_classes, in_channels=in_channels)


def wide_resnet28_4(*, num_classes: int = 10, in_channels: int = 3) -> WideResNet:
    """Build WRN-28-4."""
    return WideResNet(widen=4, num_classes=num_classes, in_channels=in_channels)


def wide_resnet28_10(*, num_classes: int = 10, in_channels: int = 3) -> WideResNet:
    """Build WRN-28-10."""
    return WideResNet(widen=10, num_classes=num_classes, in_channels=in_channels)
