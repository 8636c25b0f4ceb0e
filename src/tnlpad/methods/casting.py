"""Reduced precision for steps in which a network is run more than once.

Within an `autocast` block torch casts a weight once and keeps the cast to the end of the block, whatever becomes of the
weight in the meantime. A step that updates a network, or swaps its weights, and then asks it again would get answers of
weights that are gone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def casting_anew() -> Iterator[None]:
    """Within the block weights are cast at every pass, of which each uses them once anyway."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
