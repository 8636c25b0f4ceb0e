"""Layers so small that on a GPU launching them costs more than computing them: what is compiled has few launches.

A matrix product of a library comes with kernels that pad, cast and split it. Written as a product and a sum it is one
kernel, and the compiler fuses the bias, the nonlinearity and the derivative's sums into it.
"""

import torch
from torch import Tensor, nn


class SmallLinear(nn.Linear):
    """A linear layer; the same as torch's but for how a compiled one is carried out on a GPU."""

    def forward(self, input: Tensor) -> Tensor:
        """One row of outputs per row of the input."""
        if few_launches(input):
            return (input.unsqueeze(1) * self.weight).sum(2) + self.bias
        return super().forward(input)


def few_launches(rows: Tensor) -> bool:
    """Whether to write a layer for the compiler: on a GPU and in float32; tensor cores have their own libraries."""
    return (
        torch.compiler.is_compiling()
        and rows.is_cuda
        and rows.dtype == torch.float32
        and not torch.is_autocast_enabled("cuda")
        and _three_tf32_products()
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _three_tf32_products() -> bool:
    """Whether the GPU can make them: NVIDIA's since Ampere."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability() >= (8, 0)
