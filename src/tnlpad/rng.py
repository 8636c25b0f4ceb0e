"""Named random streams: independent generators derived from one seed and a name.

Every random decision of a run has its own stream ("noise", "split", "order", ...), so a change to one of them does not
affect the others: two methods with the same seed get the same wrong labels and the same batches. A stream depends only
on the seed and the name. NumPy guarantees the same `SeedSequence` in every version, and the name enters by its hash.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def numpy_stream(seed: int, name: str) -> np.random.Generator:
    """Return the NumPy generator of this seed and name."""
    return np.random.Generator(np.random.PCG64(_entropy(seed, name)))


def torch_stream(seed: int, name: str) -> "torch.Generator":
    """Return the torch generator of this seed and name, on the CPU."""
    import torch

    return torch.Generator().manual_seed(_torch_seed(seed, name))


@contextmanager
def global_torch_stream(seed: int, name: str) -> Iterator[None]:
    """Make torch's global CPU generator this stream within the block, then restore it.

    For code that takes no generator, such as the initialisation of layers.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_torch_seed(seed, name))  # torch.manual_seed would seed every GPU as well
        yield


def _torch_seed(seed: int, name: str) -> int:
    # 63 bits: torch takes 64, but every device accepts a signed 64-bit seed.
    return int(_entropy(seed, name).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _entropy(seed: int, name: str) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed={seed!r}: must be a whole number >= 0.")
    if not name:
        raise ValueError("name='': a random stream needs a name, such as 'noise' or 'order'.")
    digest = hashlib.sha256(name.encode()).digest()
    words = np.frombuffer(digest, dtype="<u4")  # little-endian on every platform
    return np.random.SeedSequence([int(seed), *map(int, words)])
