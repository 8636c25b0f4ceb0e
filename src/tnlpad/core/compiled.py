"""How functions and networks are compiled: for one size of batch, and into the same kernels in every process.

Left to itself torch times several forms of a sum and keeps the fastest of that moment. They add up in different orders,
so a run's numbers would depend on what else was running when it began. It is told with every compilation, since torch's
configuration belongs to a thread and the backward pass of a GPU is compiled in another.
"""

from typing import Any


def compile_options() -> dict[str, Any]:
    """What to give to `torch.compile` and to `nn.Module.compile`."""
    from torch._inductor import config as inductor  # slow to import

    repeatable = {"deterministic": True} if hasattr(inductor, "deterministic") else {}  # since torch 2.10
    return {"dynamic": False, "options": repeatable}
