"""Find the k-th largest of millions of values, with k on the device so that it may change under a CUDA graph.

torch has no fast way on a GPU: `kthvalue` works in a single block (76 ms for 11 million values on an H200), and a sort
moves an index along with every value (0.6 ms). The kernels here are a radix selection. The bits of a non-negative float
order as those of an integer do, so a pass counts how often each leading byte occurs and finds the byte of the k-th
largest. The next pass goes on with the next byte among the values that share it. Each of the four passes reads the
values once and writes 256 counts. On a CPU, without Triton, and from two billion values on, they are sorted.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

DIGITS = ((23, 8), (15, 8), (7, 8), (0, 7))  # shift and width in bits; the sign bit of a value >= 0 is 0
BINS = 256
BLOCK = 4096
PROGRAMS = 528  # four for each multiprocessor of an H200: few enough that adding up their counts takes no time
tl: Any = None  # triton.language, once it is imported


def kth_largest(values: Tensor, k: Tensor) -> Tensor:
    """Return the k-th largest of one-dimensional values >= 0; k is a whole number from 1 on, as a device scalar."""
    if values.is_cuda and _fits(values) and (kernels := _kernels()):
        with torch.cuda.device_of(values):  # Triton launches on the current device
            return _radix_select(values, k, *kernels)
    ascending = torch.sort(values).values
    return ascending.index_select(0, (len(values) - k).long().reshape(1)).squeeze(0)


def _fits(values: Tensor) -> bool:
    """Return whether the kernels handle these values; positions are counted in 32 bits, and the last one is passed."""
    return values.dtype == torch.float32 and values.is_contiguous() and len(values) <= 2**31 - PROGRAMS * BLOCK


def _radix_select(values: Tensor, k: Tensor, count: Any, narrow: Any) -> Tensor:
    found = torch.zeros((), dtype=torch.int32, device=values.device)
    counts = torch.zeros(len(DIGITS), BINS, dtype=torch.int32, device=values.device)
    left = k.to(torch.int32, copy=True)
    for (shift, width), row in zip(DIGITS, counts, strict=True):
        count[(PROGRAMS,)](
            values.view(torch.int32), len(values), found, row, SHIFT=shift, WIDTH=width, BLOCK=BLOCK, BINS=BINS
        )
        narrow[(1,)](found, left, row, WIDTH=width, BINS=BINS)
    return found.view(torch.float32)


@cache
def _kernels() -> tuple[Any, Any] | None:
    """Define the kernels at their first use: importing Triton is slow, and not every platform has it."""
    global tl  # kernels find it among the module's names
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def count(  # type: ignore[no-untyped-def]
        bits, n, found, counts, SHIFT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr
    ):
        """Count how often each digit occurs among the values whose higher bits are those found so far."""
        prefix = tl.load(found)
        mine = tl.zeros((2 * BINS,), tl.int32)
        for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            value = tl.load(bits + offsets, mask=offsets < n, other=-1)
            candidate = (offsets < n) & ((value >> (SHIFT + WIDTH)) == prefix)
            digit = (value >> SHIFT) & ((1 << WIDTH) - 1)
            mine += tl.histogram(tl.where(candidate, digit, BINS), 2 * BINS)  # the upper half is for all others
        bins = tl.arange(0, 2 * BINS)
        tl.atomic_add(counts + bins, mine, mask=bins < BINS)

    @triton.jit
    def narrow(found, left, counts, WIDTH: tl.constexpr, BINS: tl.constexpr):  # type: ignore[no-untyped-def]
        """Append the digit of the k-th largest value, and subtract the values above that digit from k."""
        bins = tl.arange(0, BINS)
        count = tl.load(counts + bins)
        from_here_up = tl.cumsum(count, 0, reverse=True)
        k = tl.load(left)
        digit = tl.sum((from_here_up >= k).to(tl.int32)) - 1
        above = tl.sum(tl.where(bins > digit, count, 0))
        tl.store(found, (tl.load(found) << WIDTH) | digit)
        tl.store(left, k - above)

    return count, narrow
