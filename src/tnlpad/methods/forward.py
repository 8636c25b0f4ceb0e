"""The forward pass of a training step, for a batch of one sample too.

BatchNorm in training mode needs a variance over more than one value, and the last batch of an epoch may hold a single
sample: torch then raises, or takes the statistics of one image. For such a batch BatchNorm layers use their running
statistics instead and leave them as they are. Every method calls the network through here, so all of them agree.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from tnlpad.core.compiled import compile_options


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


@contextmanager
def counted_as(passes: int, network: nn.Module) -> Iterator[None]:
    """Within the block a pass moves BatchNorm's running statistics as far as so many passes of like batches would."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    try:
        for layer, momentum in zip(layers, momenta, strict=True):
            if momentum is not None:  # or else they are the mean over all passes
                layer.momentum = 1 - (1 - momentum) ** passes
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def mean_loss(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy. A compiled network is compiled as one with it: that saves kernels."""
    compiled = network._compiled_call_impl is not None and len(images) > 1
    return (_compiled_mean_loss() if compiled else _mean_loss)(network, images, labels)


def _mean_loss(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(forward(network, images), labels)


@cache
def _compiled_mean_loss() -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    return torch.compile(_mean_loss, **compile_options())
