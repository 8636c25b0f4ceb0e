"""EfficientNet-Lite0, a small network for photographs whose ImageNet weights come as a Python package.

Paper: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"; the Lite variants leave
out squeeze-and-excitation and use ReLU6. Inverted residual blocks: a 1x1 convolution to six times the channels, a
depthwise one, and a 1x1 convolution back.

The published weights were trained with TensorFlow's "same" padding. Where the stride is 2 it pads the right and lower
side more, by an amount that depends on the size of the map. They take pixels normalised with `MEAN` and `STD`.

How we differ: there is neither dropout nor stochastic depth, so the network uses no random numbers. Modules have names
of ours; `our_name` maps the published ones to them, so that `load_pretrained` reads the published file.
"""

import copy
import re
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tnlpad.networks.network import Network, pooled

# Blocks, kernel, stride of the first block, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM_CHANNELS = 32
FEATURES = 1280
# Of TensorFlow, which weighs the old average with 0.99 where PyTorch weighs the new value with 0.01.
NORM_EPSILON, NORM_MOMENTUM = 1e-3, 0.01
# Of pixels in [0, 1]. With ImageNet's mean and standard deviation instead, a linear classifier on the features of
# photographs loses five points of accuracy.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
PUBLISHED_NAMES = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "classifier",
}
PUBLISHED_NAMES_IN_BLOCK = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


class ConvNorm(nn.Module):
    """A convolution with "same" padding, normalisation, and ReLU6 unless it is `linear`."""

    def __init__(
        self, in_channels: int, channels: int, kernel: int, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        super().__init__()
        # With stride 1, "same" padding is symmetric.
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride, padding, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(channels, eps=NORM_EPSILON, momentum=NORM_MOMENTUM)
        self.kernel, self.stride, self.linear = kernel, stride, linear

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            left, right = same_padding(x.shape[-1], self.kernel, self.stride)
            top, bottom = same_padding(x.shape[-2], self.kernel, self.stride)
            x = F.pad(x, (left, right, top, bottom))
        y = cast(Tensor, self.norm(self.conv(x)))
        return y if self.linear else F.relu6(y, inplace=True)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the padding before and after `size` pixels with which ⌈size / stride⌉ pixels come out.

    >>> same_padding(224, 3, 2), same_padding(225, 3, 2)
    ((0, 1), (1, 1))
    """
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """Expand, convolve each channel, project back, plus the input where the shape stays."""

    def __init__(self, in_channels: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        self.expand = ConvNorm(in_channels, wide, 1) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(wide, wide, kernel, stride=stride, groups=wide)
        self.project = ConvNorm(wide, channels, 1, linear=True)
        self.residual = stride == 1 and in_channels == channels

    def forward(self, x: Tensor) -> Tensor:
        y = cast(Tensor, self.project(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


class EfficientNetLite(Network):
    """Stem, seven stages of blocks, a 1x1 convolution to 1,280 maps, average pooling, one linear layer."""

    def __init__(self, *, num_classes: int = 1000, in_channels: int = 3) -> None:
        super().__init__()
        self.stem = ConvNorm(in_channels, STEM_CHANNELS, 3, stride=2)
        self.blocks = nn.Sequential()
        before = STEM_CHANNELS
        for blocks, kernel, stride, expansion, channels in STAGES:
            for number in range(blocks):
                self.blocks.append(InvertedResidual(before, channels, kernel, 1 if number else stride, expansion))
                before = channels
        self.head = ConvNorm(before, FEATURES, 1)
        self.classifier = nn.Linear(FEATURES, num_classes)

    def features(self, images: Tensor) -> Tensor:
        return pooled(self.head(self.blocks(self.stem(images))))

    def folded(self) -> "EfficientNetLite":
        """Return a copy for inference, with normalisation folded into the convolutions: faster on a CPU."""
        network = copy.deepcopy(self).eval()
        for module in network.modules():
            if isinstance(module, ConvNorm) and isinstance(module.norm, nn.BatchNorm2d):
                module.conv, module.norm = fuse_conv_bn_eval(module.conv, module.norm), nn.Identity()
        return network

    def our_name(self, published: str) -> str:
        """Return the name here of a tensor of the published weights; other names stay as they are.

        >>> EfficientNetLite().our_name("_blocks.3._bn1.running_mean")
        'blocks.3.depthwise.norm.running_mean'
        """
        in_block = re.fullmatch(r"_blocks\.(\d+)\.(_\w+)\.(\w+)", published)
        if in_block and in_block[2] in PUBLISHED_NAMES_IN_BLOCK:
            return f"blocks.{in_block[1]}.{PUBLISHED_NAMES_IN_BLOCK[in_block[2]]}.{in_block[3]}"
        module, _, tensor = published.partition(".")
        return f"{PUBLISHED_NAMES[module]}.{tensor}" if module in PUBLISHED_NAMES else published


def efficientnet_lite0(*, num_classes: int = 1000, in_channels: int = 3) -> EfficientNetLite:
    """Build EfficientNet-Lite0: 1, 2, 2, 3, 3, 4 and 1 blocks."""
    return EfficientNetLite(num_classes=num_classes, in_channels=in_channels)
