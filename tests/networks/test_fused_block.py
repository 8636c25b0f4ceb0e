"""LeNet's layers in few launches have the outputs and derivatives of torch's own layers."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from tnlpad.core.compiled import compile_options
from tnlpad.networks import build
from tnlpad.networks.lenet import SmallLinear, few_launches

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
INTERPRETED = {"TRITON_INTERPRET": "1"}  # Triton reads it when it is imported, and runs kernels as Python
on_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
with_kernels = pytest.mark.skipif(
    not (ON_GPU or INTERPRETED.items() <= os.environ.items()),
    reason="another test runs it in a process of its own",
)


@pytest.mark.skipif(ON_GPU, reason="there is a GPU to run the kernels on")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.skipif(INTERPRETED.items() <= os.environ.items(), reason="this is that process")
def test_the_kernels_are_right_where_there_is_no_gpu():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=os.environ | INTERPRETED, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "5 passed" in done.stdout


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
@on_gpu
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
