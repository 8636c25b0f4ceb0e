"""Radix selection for CUDA: see `tnlpad.core.select`, which falls back to a sort elsewhere."""

import torch
import triton
import triton.language as tl
from torch import Tensor

DIGITS = ((23, 8), (15, 8), (7, 8), (0, 7))  # shift and width in bits; the sign bit of a value >= 0 is 0
BINS = 256
BLOCK = 4096
PROGRAMS = 528  # four for each of an H200's multiprocessors: few enough that adding up their counts costs nothing


@triton.jit
def _count(bits, n, state, counts, SHIFT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr):  # type: ignore[no-untyped-def]
    """How often each digit occurs among the values whose higher bits are those found so far."""
    found = tl.load(state)
    mine = tl.zeros((2 * BINS,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(bits + offsets, mask=offsets < n, other=-1)
        candidate = (offsets < n) & ((value >> (SHIFT + WIDTH)) == found)
        digit = (value >> SHIFT) & ((1 << WIDTH) - 1)
        mine += tl.histogram(tl.where(candidate, digit, BINS), 2 * BINS)  # the upper half is for all others
    bins = tl.arange(0, 2 * BINS)
    tl.atomic_add(counts + bins, mine, mask=bins < BINS)


@triton.jit
def _narrow(state, left, counts, WIDTH: tl.constexpr, BINS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Append the digit in which the k-th largest lies, and count on among the values that have it."""
    bins = tl.arange(0, BINS)
    count = tl.load(counts + bins)
    from_here_up = tl.cumsum(count, 0, reverse=True)
    k = tl.load(left)
    digit = tl.sum((from_here_up >= k).to(tl.int32)) - 1
    above = tl.sum(tl.where(bins > digit, count, 0))
    tl.store(state, (tl.load(state) << WIDTH) | digit)
    tl.store(left, k - above)


def radix_select(values: Tensor, k: Tensor) -> Tensor:
    """The k-th largest of contiguous float32 values >= 0."""
    state = torch.zeros((), dtype=torch.int32, device=values.device)
    counts = torch.zeros(len(DIGITS), BINS, dtype=torch.int32, device=values.device)
    left = k.to(torch.int32)
    left = left.clone() if left is k else left
    for (shift, width), row in zip(DIGITS, counts, strict=True):
        _count[(PROGRAMS,)](
            values.view(torch.int32), len(values), state, row, SHIFT=shift, WIDTH=width, BLOCK=BLOCK, BINS=BINS
        )
        _narrow[(1,)](state, left, row, WIDTH=width, BINS=BINS)
    return state.view(torch.float32)
