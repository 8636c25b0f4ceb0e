import numpy as np
import pytest
import torch

from tnlpad.core.select import kth_largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_kth_largest_is_that_of_a_sort(dtype):
    values = torch.randn(101, generator=torch.Generator().manual_seed(0)).abs().to(dtype)
    values[::7] = 0
    descending = -np.sort(-values.double().numpy())
    for k in (1, 2, 50, 90, 101):
        assert kth_largest(values, torch.tensor(float(k))).item() == descending[k - 1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("size", [1, 7, 4096, 1_000_003])
def test_on_a_gpu_too(size):
    """Ties, zeros, denormal numbers and infinity among the values; k is read on the device."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(size)).abs()
    values[::7] = 0
    values[1::11] = 1e-41
    values[2::13] = values[-1]
    values[3::100_003] = torch.inf
    descending = torch.sort(values, descending=True).values
    for k in {1, (size + 1) // 2, max(1, size - 1), size}:
        found = kth_largest(values.cuda(), torch.tensor(float(k), dtype=torch.float64, device="cuda"))
        assert found.item() == descending[k - 1].item()
