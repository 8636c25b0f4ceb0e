"""ResNeXt-29 for small images: residual blocks whose 3x3 convolution works in groups.

Paper: Xie et al., "Aggregated Residual Transformations for Deep Neural Networks". "32x4d" is 32 groups of 4 channels in
the first stage. Three stages of three blocks with strides 1, 2, 2; the width of a group doubles from stage to stage,
and a block has twice as many outputs as its groups have channels.

How we differ from the paper: the stem is a 1x1 convolution to 64 channels, not 3x3, and the output of a block grows
with its groups instead of staying at 256, 512 and 1024, as in the variant commonly trained on CIFAR. The paper of the
decomposition does not state its variant; we assume 32x4d. Weights have PyTorch's default initialisation.
"""

from functools import partial

from torch import Tensor, nn

from tnlpad.networks.network import Network, pooled
from tnlpad.networks.resnet import Bottleneck, stage

STEM_CHANNELS = 64
STRIDES = (1, 2, 2)  # of the first block of each stage
BLOCKS_PER_STAGE = 3


class GroupedBlock(Bottleneck):
    """1x1, grouped 3x3, 1x1 up to twice the channels, plus the shortcut."""

    expansion = 2


class ResNeXt(Network):
    """Stem, three stages of blocks, average pooling, one linear layer."""

    def __init__(self, *, cardinality: int, width: int, num_classes: int = 10, in_channels: int = 3) -> None:
        super().__init__()
        channels = STEM_CHANNELS
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.stages = nn.Sequential()
        block = partial(GroupedBlock, groups=cardinality)
        for number, stride in enumerate(STRIDES):
            inner = cardinality * width * 2**number
            self.stages.append(stage(block, channels, inner, stride, BLOCKS_PER_STAGE, GroupedBlock.expansion))
            channels = inner * GroupedBlock.expansion
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        return pooled(self.stages(self.stem(images)))


def resnext29_32x4d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """Build ResNeXt-29 with 32 groups of 4 channels."""
    return ResNeXt(cardinality=32, width=4, num_classes=num_classes, in_channels=in_channels)


def resnext29_2x64d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """Build ResNeXt-29 with 2 groups of 64 channels."""
    return ResNeXt(cardinality=2, width=64, num_classes=num_classes, in_channels=in_channels)


def resnext29_4x64d(*, num_classes: int = 10, in_channels: int = 3) -> ResNeXt:
    """Build ResNeXt-29 with 4 groups of 64 channels."""
    return ResNeXt(cardinality=4, width=64, num_classes=num_classes, in_channels=in_channels)
