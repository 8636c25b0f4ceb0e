"""The forward pass of a training step, for a batch of one sample too.

BatchNorm in training mode needs a variance over more than one value, and the last batch of an epoch may hold a single
sample: torch then raises, or takes the statistics of one image. For such a batch BatchNorm layers use their running
statistics instead and leave them as they are. Every method calls the network through here, so all of them agree.
"""

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def forward(network: nn.Module, images: Tensor) -> Tensor:
    """The network's outputs. The batch's size decides, which the host knows: nothing waits for the device."""
    if len(images) > 1:
        outputs: Tensor = network(images)
        return outputs
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.training]
    try:
        for layer in layers:
            layer.eval()
        outputs = network(images)
    finally:
        for layer in layers:
            layer.train()
    return outputs
