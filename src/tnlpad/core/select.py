"""The k-th largest of millions of values, with k on the device, so that it may change under a CUDA graph.

torch has no fast way on a GPU: `kthvalue` works in a single block (76 ms for 11 million values on an H200), and a sort
moves an index along with every value (0.6 ms). What is needed is a radix selection: the bits of a non-negative float
order as those of an integer do, so count how often each leading byte occurs, see in which one the k-th largest lies,
and go on with the next byte among the values that share it. Each of the four passes reads the values once and writes
256 counts.
"""

import torch
from torch import Tensor


def kth_largest(values: Tensor, k: Tensor) -> Tensor:
    """The k-th largest of one-dimensional values >= 0; k is a whole number from 1 on, as a device scalar."""
    if values.is_cuda and values.dtype == torch.float32 and values.is_contiguous():
        try:
            from tnlpad.core.radix_select import radix_select
        except ImportError:  # triton does not exist for every platform
            pass
        else:
            return radix_select(values, k)
    ascending = torch.sort(values).values
    return ascending.index_select(0, (len(values) - k).long().reshape(1)).squeeze(0)
