"""VGG-19 with batch normalisation for small images: sixteen 3x3 convolutions and one linear layer.

Paper: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", configuration E, in
the shape used for CIFAR: normalisation after each convolution, and one linear layer instead of three with dropout.
Which head the paper of the decomposition used is not stated; this one is assumed.

Max-pooling rounds up, so that the maps of a 28x28 image (28, 14, 7, 4, 2, 1) do not vanish; for 32x32 nothing changes.
What is left of larger images is averaged. Weights start as PyTorch's layers start them.
"""

from torch import Tensor, nn

from tnlpad.networks.network import Network, pooled

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels, convolutions before the pooling


class VGG(Network):
    """Five stages of convolutions, each ending in max-pooling, and one linear layer."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 3) -> None:
        super().__init__()
        channels = in_channels
        self.stages = nn.Sequential()
        for width, convolutions in STAGES:
            stage = nn.Sequential()
            for _ in range(convolutions):
                # The bias is redundant before normalisation, but the network is defined with it.
                stage.extend((nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()))
                channels = width
            self.stages.append(stage.append(nn.MaxPool2d(2, ceil_mode=True)))
        self.classifier = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        return pooled(self.stages(images))


def vgg19(*, num_classes: int = 10, in_channels: int = 3) -> VGG:
    """VGG-19 with batch normalisation."""
    return VGG(num_classes=num_classes, in_channels=in_channels)
