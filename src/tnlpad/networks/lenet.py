"""LeNet-5 for 28x28 images: two 5x5 convolutions with pooling, then 400-120-84 and one linear layer.

Paper: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", in today's form: every map of the first
convolution feeds the second, ReLU instead of the scaled tanh, a linear layer instead of radial basis functions, biases
everywhere. Pooling takes the maximum, as in the code of the decomposition's authors. The original takes 32x32
images. The first convolution pads 28x28 to that size, so both have maps of 28, 14, 10, 5 and the same weights.

On a GPU such small layers take longer to launch than to compute, so a compiled LeNet has few launches. A library's
matrix product comes with kernels that pad, cast and split it. Written as a product and a sum, it is one kernel, into
which the compiler fuses the bias, the nonlinearity and the derivative's sums.
"""

from typing import cast

import torch
from torch import Tensor, nn

from tnlpad.networks.network import Network


class SmallLinear(nn.Linear):
    """A linear layer that a GPU runs in few launches when compiled; otherwise torch's own."""

    def forward(self, input: Tensor) -> Tensor:
        if few_launches(input):
            return (input.unsqueeze(1) * self.weight).sum(2) + self.bias
        return super().forward(input)


def few_launches(rows: Tensor) -> bool:
    """Return whether to write layers for the compiler: on a GPU and in float32, where no tensor cores are used."""
    return (
        torch.compiler.is_compiling()
        and rows.is_cuda
        and rows.dtype == torch.float32
        and not torch.is_autocast_enabled("cuda")
        and _has_tf32()
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _has_tf32() -> bool:
    """Return whether the GPU has TF32: NVIDIA's since Ampere."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability() >= (8, 0)


class LeNet(Network):
    """Two convolutions, two hidden layers, a linear classifier."""

    def __init__(self, *, num_classes: int = 10, in_channels: int = 1, image_size: int = 28) -> None:
        super().__init__()
        if image_size not in (28, 32):
            raise ValueError(f"image_size={image_size!r}: LeNet-5 takes 28 or 32. Resize the images to one of them.")
        self.image_size = image_size
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=(32 - image_size) // 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            SmallLinear(16 * 5 * 5, 120),
            nn.ReLU(),
            SmallLinear(120, 84),
            nn.ReLU(),
        )
        self.classifier = SmallLinear(84, num_classes)

    def features(self, images: Tensor) -> Tensor:
        # The first linear layer's own error would name two matrices that no user knows.
        height, width = images.shape[-2:]
        if (height, width) != (self.image_size, self.image_size):
            raise ValueError(
                f"The images are {height}x{width}, but this LeNet takes {self.image_size}x{self.image_size}: build it "
                "with image_size=28 or 32, or resize the images."
            )
        if not few_launches(images):
            return cast(Tensor, self.body(images))
        from tnlpad.networks.fused_block import fused_block

        first, second = cast(nn.Conv2d, self.body[0]), cast(nn.Conv2d, self.body[3])
        return cast(Tensor, self.body[6:](fused_block(fused_block(images, first), second)))


def lenet(*, num_classes: int = 10, in_channels: int = 1, image_size: int = 28) -> LeNet:
    """Build LeNet-5."""
    return LeNet(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
