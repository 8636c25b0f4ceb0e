"""The forward pass and the optimizer step of a training step.

BatchNorm in training mode needs more than one value per channel, but the last batch of an epoch may hold one sample.
torch then raises, or normalises by the statistics of one image. For such a batch, `forward` makes BatchNorm layers use
their running statistics and leaves these unchanged. All methods call their networks through it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from tnlpad.core.compiled import compile_options
from tnlpad.ranks import group


def forward(network: nn.Module, *images: Tensor, total: int | None = None) -> Tensor:
    """Return the network's outputs of a batch, or of several batches of one size, one after another.

    Only the batch size decides how, so the host never waits for the device.

    Args:
        network: Network to call.
        images: Images of a batch. On several ranks, this rank's share of them (`tnlpad.ranks.group.share`); the outputs
            are those of the whole batch, on every rank.
        total: Number of samples in a batch, over all ranks (default: that of the training step).
    """
    inputs = images[0] if len(images) == 1 else torch.cat(images)
    if group.count() == 1:
        return _outputs(network, inputs, single=len(inputs) == 1)
    total = group.batch_size() if total is None else total
    with group.divided_pass(total):
        outputs = _outputs(group.synchronised(network), inputs, single=total * len(images) == 1)
    return group.whole_outputs(outputs, len(images), total)


def _outputs(network: nn.Module, images: Tensor, *, single: bool) -> Tensor:
    if not single:
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


def mean_loss(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy. If the network is compiled, it is compiled together with the loss."""
    compiled = network._compiled_call_impl is not None and len(images) > 1
    return (_compiled_mean_loss() if compiled else _mean_loss)(network, images, labels)


def _mean_loss(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(forward(network, images, total=len(labels)), labels)


@cache
def _compiled_mean_loss() -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    return torch.compile(_mean_loss, **compile_options())


def gradient_step(optimizer: Optimizer, loss: Tensor) -> Tensor:
    """Back-propagate the loss and update the weights; return the loss, detached."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


@contextmanager
def counted_as(passes: int, network: nn.Module) -> Iterator[None]:
    """Within the block, one pass updates BatchNorm's running statistics as much as `passes` passes would."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    try:
        for layer, momentum in zip(layers, momenta, strict=True):
            if momentum is not None:  # None: the running statistics are the mean over all passes
                layer.momentum = 1 - (1 - momentum) ** passes
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
