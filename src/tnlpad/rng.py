"""Named random streams: one seed gives as many independent generators as there are names.

Every random decision of a run has a stream of its own ("noise", "split", "order", ...), so that a change to one of them
leaves the others as they were: two methods with the same seed see the same wrong labels and the same batches. A stream
depends on the seed and the name only, not on the process, the platform or what was drawn before; NumPy promises the
same `SeedSequence` in every version, and the name enters by its hash.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def numpy_stream(seed: int, name: str) -> np.random.Generator:
    """The NumPy generator of this seed and name."""
    return np.random.Generator(np.random.PCG64(_entropy(seed, name)))


def torch_stream(seed: int, name: str, device: "torch.device | str" = "cpu") -> "torch.Generator":
    """The torch generator of this seed and name."""
    import torch

    return torch.Generator(device).manual_seed(_torch_seed(seed, name))


@contextmanager
def global_torch_stream(seed: int, name: str) -> Iterator[None]:
    """Within the block torch's global CPU generator is this stream; afterwards it is what it was.

    For code that knows no other generator: the initialisation of layers is of that kind.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_torch_seed(seed, name))  # torch.manual_seed would seed every GPU as well
        yield


def _torch_seed(seed: int, name: str) -> int:
    # 63 bits: torch takes 64, but a signed 64-bit seed is what every device accepts.
    return int(_entropy(seed, name).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _entropy(seed: int, name: str) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed={seed!r}: must be a whole number >= 0.")
    if not name:
        raise ValueError("name='': a random stream needs a name, such as 'noise' or 'order'.")
    digest = hashlib.sha256(name.encode()).digest()
    words = np.frombuffer(digest, dtype="<u4")  # little-endian on every platform
    return np.random.SeedSequence([int(seed), *map(int, words)])
