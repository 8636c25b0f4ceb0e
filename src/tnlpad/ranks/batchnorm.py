"""BatchNorm over the whole batch of several ranks, on any device.

torch's `SyncBatchNorm` works on GPUs only. Here each rank computes mean and variance of its share, the ranks exchange
them, and all normalise with the mean and variance of the whole batch. Variances are combined by the formula of Chan,
Golub and LeVeque, which does not cancel: with n_k values of mean m_k and variance v_k on rank k,

    m = Σ n_k·m_k/n,        v = Σ n_k·(v_k + (m_k − m)²)/n.

Backward, with x̂ = (x − m)/s, s² = v + ε, and sums over the whole batch, which the ranks add up:

    dx = (w/s)·(dy − Σ dy/n − x̂·Σ(dy·x̂)/n).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.ranks import group


def share_statistics(network: nn.Module) -> None:
    """Let the BatchNorm layers of a network use statistics of the whole batch on several ranks."""
    for module in network.modules():
        if type(module) in SHARED:
            module.__class__ = SHARED[type(module)]


class _Shared(nn.modules.batchnorm._BatchNorm):
    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and group.sees_share()):
            return super().forward(input)
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        mean, variance, values = whole_statistics(input.detach())
        if self.track_running_stats:
            self._follow(mean, variance * (values / (values - 1)))
        normalise: Callable[..., Tensor] = _Normalise.apply
        return normalise(input, self.weight, self.bias, mean, variance, values, self.eps)

    @torch.no_grad()
    def _follow(self, mean: Tensor, unbiased: Tensor) -> None:
        """Update the running statistics, as torch does."""
        assert self.running_mean is not None, "tracked"
        assert self.running_var is not None, "tracked"
        assert self.num_batches_tracked is not None, "tracked"
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class SharedBatchNorm1d(_Shared, nn.BatchNorm1d):
    """`nn.BatchNorm1d` over the whole batch of several ranks."""


class SharedBatchNorm2d(_Shared, nn.BatchNorm2d):
    """`nn.BatchNorm2d` over the whole batch of several ranks."""


SHARED: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: SharedBatchNorm1d,
    nn.BatchNorm2d: SharedBatchNorm2d,
}


def whole_statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, variance and number of values of each channel over all ranks, in double precision."""
    # Of values in bfloat16, torch would return statistics with three digits.
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(precise, [0, *range(2, x.ndim)], correction=0)
    count = torch.full_like(mean, x.numel() / x.shape[1], dtype=torch.float64)
    table = x.new_zeros(group.count(), 3, x.shape[1], dtype=torch.float64)
    table[group.rank()] = torch.stack([count, mean.double(), variance.double()])
    counts, means, variances = group.add_up(table).unbind(1)
    values = counts.sum(0)
    mean = (counts * means).sum(0) / values
    variance = (counts * (variances + (means - mean) ** 2)).sum(0) / values
    return mean, variance, values  # all on the device: nothing waits for it


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        values: Tensor,
        eps: float,
    ) -> Tensor:
        precision = torch.promote_types(x.dtype, torch.float32)
        mean, variance = mean.to(precision), variance.to(precision)
        ctx.save_for_backward(x, weight, mean, variance, values)
        ctx.eps = eps
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance, values = ctx.saved_tensors
        # With fixed statistics, torch gives this rank's sums of dy·x̂ and dy.
        fixed = torch.ops.aten.native_batch_norm_backward
        unsaved = mean.new_empty(0)  # CUDA's kernel for channels-last images does not take None
        needed = [False, True, True]
        _, by_weight, by_bias = fixed(dy, x, weight, mean, variance, unsaved, unsaved, False, ctx.eps, needed)
        sums = group.add_up(torch.stack([by_weight, by_bias]).double()) / values
        scale = (variance.double() + ctx.eps).rsqrt()
        outer = scale if weight is None else scale * weight.double()
        slope = -outer * scale * sums[0]
        offset = -outer * sums[1] - slope * mean.double()
        shape = [1, -1, *[1] * (x.ndim - 2)]
        outer, slope, offset = (vector.to(mean.dtype).view(shape) for vector in (outer, slope, offset))
        # At least in single precision, and rounded once.
        dx = torch.addcmul(offset, x.to(mean.dtype), slope).addcmul_(dy.to(mean.dtype), outer).to(x.dtype)
        none = (None,) * 4
        return (dx, None, None, *none) if weight is None else (dx, by_weight, by_bias, *none)
