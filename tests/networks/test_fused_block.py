"""LeNet's layers in few launches have the outputs and derivatives of torch's own layers."""

import pytest
import torch
from torch import nn

from tests.kernels import DEVICE, with_gpu, with_kernels
from tnlpad.core.compiled import compile_options
from tnlpad.networks import build
from tnlpad.networks.lenet import SmallLinear, few_launches


@with_kernels
@pytest.mark.gpu
@pytest.mark.parametrize(
    ("images", "channels", "size", "outputs", "padding", "layout"),
    [
        (3, 1, 12, 6, 2, torch.channels_last),
        (2, 6, 8, 16, 0, torch.contiguous_format),
        (2, 3, 10, 6, 0, torch.channels_last),
    ],
)
def test_outputs_and_derivatives_are_those_of_torch(images, channels, size, outputs, padding, layout):
    from tnlpad.networks.fused_block import fused_block

    torch.manual_seed(0)
    layer = nn.Conv2d(channels, outputs, 5, padding=padding).to(DEVICE, memory_format=layout)
    pixels = torch.randn(images, channels, size, size, device=DEVICE).to(memory_format=layout).requires_grad_()
    ours, theirs = fused_block(pixels, layer), torch.max_pool2d(layer(pixels).relu(), 2)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    wanted, gradient = (pixels, layer.weight, layer.bias), torch.randn_like(theirs)
    ours, theirs = (torch.autograd.grad(outputs, wanted, gradient) for outputs in (ours, theirs))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert ours[1].stride() == layer.weight.stride()


@with_kernels
@pytest.mark.gpu
def test_weights_may_be_a_part_of_a_larger_tensor():
    from tnlpad.networks.fused_block import convolved_pooled

    torch.manual_seed(0)
    weight = torch.randn(6, 1, 5, 7, device=DEVICE)[..., :5].requires_grad_()  # its strides are not those of a copy
    bias, pixels = torch.randn(6, device=DEVICE), torch.randn(2, 1, 12, 12, device=DEVICE)
    ours = convolved_pooled(pixels, weight, bias, 2)[0]
    theirs = torch.max_pool2d(nn.functional.conv2d(pixels, weight, bias, padding=2).relu(), 2)
    gradients = [torch.autograd.grad(outputs.square().sum(), weight)[0] for outputs in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@with_kernels
@pytest.mark.gpu
def test_nan_stays_nan():
    """A run that has diverged must not continue."""
    from tnlpad.networks.fused_block import fused_block

    layer = nn.Conv2d(1, 6, 5, padding=2).to(DEVICE)
    pixels = torch.zeros(2, 1, 8, 8, device=DEVICE)
    pixels[1, 0, 4, 4] = float("nan")
    outputs = fused_block(pixels, layer)
    assert outputs[1].isnan().any()
    assert not outputs[0].isnan().any()


@pytest.mark.gpu
@with_gpu
def test_lenet_compiled_is_lenet():
    torch.manual_seed(0)
    network = build("lenet").cuda()
    images = torch.randn(32, 1, 28, 28, device="cuda")
    labels = torch.randint(10, (32,), device="cuda")

    def numbers():
        network.zero_grad()
        logits = network(images)
        nn.functional.cross_entropy(logits, labels).backward()
        return [logits.detach(), *(parameter.grad for parameter in network.parameters())]

    eager = numbers()
    network.compile(**compile_options())
    numbers()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled = numbers()
    assert "tnlpad::convolved_pooled" in {event.name for event in profile.events()}
    for mine, other in zip(compiled, eager, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_on_a_cpu_the_layers_are_torchs_own():
    rows = torch.randn(4, 7)
    layer = SmallLinear(7, 3)
    assert not few_launches(rows)
    torch.testing.assert_close(layer(rows), nn.functional.linear(rows, layer.weight, layer.bias), rtol=0, atol=0)
    assert list(build("lenet").state_dict())[-2:] == ["classifier.weight", "classifier.bias"]
