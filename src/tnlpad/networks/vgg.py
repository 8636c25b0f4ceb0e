"""VGG-19 with batch normalisation for small images: sixteen 3x3 convolutions and one linear layer.

Paper: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", configuration E, in
the shape used for CIFAR: normalisation after each convolution, and one linear layer instead of three with dropout.
The paper of the decomposition does not state its head; we assume this one.

Max-pooling rounds up, so that the maps of a 28x28 image (28, 14, 7, 4, 2, 1) do not vanish; 32x32 is not affected.
Larger maps at the end are averaged. Weights have PyTorch's default initialisation.
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
        return pooled(self.stages(images))


def vgg19(*, num_classes: int = 10, in_channels: int = 3) -> VGG:
    """Build VGG-19 with batch normalisation."""
    return VGG(num_classes=num_classes, in_channels=in_channels)
