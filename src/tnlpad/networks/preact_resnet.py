"""PreAct ResNet-18 for small images: normalisation and ReLU come before each convolution.

Paper: He et al., "Identity Mappings in Deep Residual Networks", in the shape used for CIFAR: stem and stages as in
`resnet.py`, and a 1x1 convolution on the shortcut where the shape changes, without normalisation and applied to the
normalised, rectified input.

How we differ from the paper: like the networks the label-noise papers train, it has no normalisation between the last
block and the pooling. `stem_norm=True` adds normalisation and ReLU after the stem, as DivideMix (Li et al.) does.
Weights have PyTorch's default initialisation.
"""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.networks.network import Network, pooled
from tnlpad.networks.resnet import stage

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, stride of the first block


class PreActBlock(nn.Module):
    """Normalisation, ReLU and a 3x3 convolution, twice, plus the shortcut."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        same_shape = stride == 1 and in_channels == channels
        self.shortcut = None if same_shape else nn.Conv2d(in_channels, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        # The identity gets x itself, the convolution the activated x.
        shortcut = x if self.shortcut is None else self.shortcut(active)
        y = self.conv1(active)
        y = self.conv2(F.relu(self.bn2(y)))
        return cast(Tensor, y + shortcut)


class PreActResNet(Network):
    """Stem, four stages of blocks, average pooling, one linear layer."""

    def __init__(
        self,
        blocks_per_stage: tuple[int, int, int, int],
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        stem_norm: bool = False,
    ) -> None:
        super().__init__()
        channels = STAGES[0][0]
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 3, padding=1, bias=False))
        if stem_norm:
            self.stem.extend((nn.BatchNorm2d(channels), nn.ReLU()))
        self.stages = nn.Sequential()
        for (width, stride), blocks in zip(STAGES, blocks_per_stage, strict=True):
            self.stages.append(stage(PreActBlock, channels, width, stride, blocks))
            channels = width
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        return pooled(self.stages(self.stem(images)))


def preact_resnet18(*, num_classes: int = 10, in_channels: int = 3) -> PreActResNet:
    """Build PreAct ResNet-18: blocks 2, 2, 2, 2."""
    return PreActResNet((2, 2, 2, 2), num_classes=num_classes, in_channels=in_channels)


def preact_resnet18_dividemix(*, num_classes: int = 10, in_channels: int = 3) -> PreActResNet:
    """Build PreAct ResNet-18 as DivideMix trains it, with normalisation and ReLU after the stem."""
    return PreActResNet((2, 2, 2, 2), num_classes=num_classes, in_channels=in_channels, stem_norm=True)
