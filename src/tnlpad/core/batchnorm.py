"""BatchNorm statistics that fit σ, without disturbing those of w.

While training, BatchNorm collects the means and variances of a network that runs on w = σ + γ. The paper judges σ
with those same statistics, and so do we by default. Once γ is not small they no longer fit, layer after layer; this
module estimates them anew from a pass of the network as it stands, as weight averaging does (torch's `update_bn`, which
however overwrites them for good). Labels are not used. Feed images augmented as in training: on plain images the
estimate has been seen to lower accuracy.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def reestimated_batchnorm(model: nn.Module, batches: Iterable[Tensor]) -> Iterator[None]:
    """Within the block BatchNorm uses statistics averaged over `batches`; afterwards its own again, bit for bit.

    >>> with optimizer.sigma_weights(), reestimated_batchnorm(model, batches):  # doctest: +SKIP
    ...     accuracy = evaluate(model)

    The whole network is in evaluation mode within the block (dropout off), and in its previous modes afterwards.

    Raises:
        ValueError: if there is not a single batch to estimate from.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    modes = {module: module.training for module in model.modules()}
    buffers = [{name: buffer.clone() for name, buffer in layer.named_buffers(recurse=False)} for layer in layers]
    momenta = [layer.momentum for layer in layers]
    try:
        model.eval()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a cumulative average: every batch counts the same
            layer.training = True
        _pass(model, batches if layers else ())
        if layers and not any(layer.num_batches_tracked for layer in layers):
            raise ValueError("No batch went through BatchNorm: `batches` is empty, or the layers are not used.")
        for layer, saved in zip(layers, buffers, strict=True):
            layer.training = False
            if not layer.num_batches_tracked:  # a head that only training uses, say
                _restore(layer, saved)
        yield
    finally:
        for layer, saved, momentum in zip(layers, buffers, momenta, strict=True):
            layer.momentum = momentum
            _restore(layer, saved)
        for module, training in modes.items():
            module.training = training


def _restore(layer: nn.Module, saved: dict[str, Tensor]) -> None:
    for name, value in saved.items():
        getattr(layer, name).copy_(value)


@torch.no_grad()
def _pass(model: nn.Module, batches: Iterable[Tensor]) -> None:
    for images in batches:
        model(images)
