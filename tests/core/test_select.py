from contextlib import contextmanager

import numpy as np
import pytest
import torch

from tests.kernels import INTERPRETED, with_gpu
from tnlpad.core import select
from tnlpad.core.select import kth_largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_kth_largest_is_that_of_a_sort(dtype):
    values = torch.randn(101, generator=torch.Generator().manual_seed(0)).abs().to(dtype)
    values[::7] = 0
    descending = -np.sort(-values.double().numpy())
    for k in (1, 2, 50, 90, 101):
        assert kth_largest(values, torch.tensor(float(k))).item() == descending[k - 1]


def test_values_that_the_kernels_cannot_count_are_sorted():
    for size, fitting in ((2**31 - 528 * 4096, True), (2**31 - 528 * 4096 + 1, False), (2**31, False)):
        assert select._fits(torch.empty(size, device="meta")) == fitting
    assert not select._fits(torch.zeros(3, dtype=torch.float64))
    assert not select._fits(torch.zeros(6)[::2])


def test_the_kernels_are_launched_on_the_device_of_the_values(monkeypatch):
    inside, used = [], []

    @contextmanager
    def device_of(tensor):
        inside.append(tensor)
        yield
        inside.pop()

    values = torch.ones(3)
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(select, "_kernels", lambda: ("count", "narrow"))
    monkeypatch.setattr(select, "_radix_select", lambda *arguments: used.append(inside[0] is values))
    kth_largest(values, torch.tensor(1))
    assert used == [True]


def values_of(size):
    """Ties, zeros, denormal numbers and infinity."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(size)).abs()
    values[::7] = 0
    values[1::11] = 1e-41
    values[2::13] = values[-1]
    values[3::100_003] = torch.inf
    return values


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("size", [1, 7, 4096, 1_000_003])
def test_on_a_gpu_too(size):
    values = values_of(size)
    descending = torch.sort(values, descending=True).values
    for k in {1, (size + 1) // 2, max(1, size - 1), size}:
        found = kth_largest(values.cuda(), torch.tensor(float(k), dtype=torch.float64, device="cuda"))
        assert found.item() == descending[k - 1].item()


@pytest.mark.gpu
@pytest.mark.skipif(not INTERPRETED, reason="another test runs it in a process of its own")
def test_the_kernels_select_as_a_sort_does(monkeypatch):
    monkeypatch.setattr(select, "PROGRAMS", 2)
    values = values_of(5000)
    descending = torch.sort(values, descending=True).values
    for k in (1, 4, 2500, 5000):
        found = select._radix_select(values, torch.tensor(k, dtype=torch.int32), *select._kernels())
        assert found.item() == descending[k - 1].item()
