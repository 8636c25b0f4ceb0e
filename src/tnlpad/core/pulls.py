"""What the two norm penalties do to gradients and to γ: a subgradient for each, and the proximal step for γ.

A penalty β·‖v‖ over many tensors adds β·v/‖v‖ to the gradient of v, and 0 where v = 0. Everything stays on the device:
β, norms and quotients are tensors, so that no step waits for the host.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def norms(vectors: Sequence[Tensor], per_tensor: bool) -> Tensor:
    """The norm over all tensors together (a scalar), or one for each of them."""
    each = torch.stack(torch._foreach_norm(list(vectors)))
    return each if per_tensor else torch.linalg.vector_norm(each)


def pull(beta: Tensor, vectors: Sequence[Tensor], per_tensor: bool) -> Tensor:
    """β/‖v‖, and 0 where the norm is 0."""
    lengths = norms(vectors, per_tensor)
    return torch.where(lengths == 0, 0.0, beta / lengths)  # not `> 0`: a NaN must show


def keep(threshold: Tensor, vectors: Sequence[Tensor], per_tensor: bool) -> Tensor:
    """The group soft-threshold's factor max(0, 1 − threshold/‖v‖), and 0 where the norm is 0."""
    lengths = norms(vectors, per_tensor)
    return torch.where(lengths == 0, 0.0, (1 - threshold / lengths).clamp(min=0))


def scale_(vectors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply every tensor by the one factor, or by its own, in place."""
    torch._foreach_mul_(list(vectors), factor if factor.ndim == 0 else list(factor.unbind()))
