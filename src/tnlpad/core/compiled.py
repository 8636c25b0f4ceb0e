"""Options of `torch.compile`: one batch size, and the same kernels in every process.

By default torch times several kernels for a reduction and keeps the fastest. They sum in different orders, so a run's
numbers would depend on what else the machine is doing. The options are passed with every compilation: torch's global
configuration belongs to a thread, and a GPU's backward pass is compiled in another.
"""

from typing import Any


def compile_options() -> dict[str, Any]:
    """Return the options for `torch.compile` and `nn.Module.compile`."""
    from torch._inductor import config as inductor  # slow to import

    repeatable = {"deterministic": True} if hasattr(inductor, "deterministic") else {}  # since torch 2.10
    return {"dynamic": False, "options": repeatable}
