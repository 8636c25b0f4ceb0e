"""The whole SGD update of σ, γ and w in one pass over memory, for CUDA.

Per element it reads g, σ, γ, the anchor and two momenta and writes σ, γ, w and two momenta: the least the equations in
`decomposition` allow. The same pass sums the norms that the next step needs. Each block stores its partial sums and a
second, tiny kernel adds them in a fixed order, so a run is bit-for-bit repeatable. Learning rate, β1 and β2 are read
from device memory, so a captured step follows them when they change.

Weights of one parameter group and one dtype are one launch: a kernel for several dtypes would need more registers, so
that fewer blocks run at once. The addresses of all tensors are in a table on the device. Gradients, which torch may
allocate elsewhere at every step, have a table of their own, rewritten when they move. Of sharded weights it updates
this rank's pieces; the norms' partial sums are then added over ranks.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.optim import Optimizer

from tnlpad.core.parts import Parts, same_layout
from tnlpad.core.sharded import is_sharded, piece, pieces, same_sharding, sum_over_ranks

BLOCK = 1024
LAUNCH = {"num_warps": 4, "enable_fp_fusion": True}  # Triton 3.10 rounds a·b before it adds c, unless told
MOST_CAPTURED = 32  # updates in one graph
MOST_ELEMENTS = 2**31 - BLOCK  # of a weight: the kernel counts them in 32 bits


@triton.jit
def _pointer(addresses, index, TYPE: tl.constexpr, ALIGNED: tl.constexpr):  # type: ignore[no-untyped-def]
    # Four elements at a time, whatever their type: then all values have one layout, and sums one order.
    pointer = tl.load(addresses + index).to(tl.pointer_type(TYPE))
    return tl.multiple_of(pointer, 4 * pointer.dtype.element_ty.primitive_bitwidth // 8) if ALIGNED else pointer


@triton.jit
def _read(pointers, inside, FULL: tl.constexpr):  # type: ignore[no-untyped-def]
    # The compiler uses 16-byte accesses only without a mask, unless it knows that the length divides by four.
    return tl.load(pointers) if FULL else tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def _write(pointers, values, inside, FULL: tl.constexpr):  # type: ignore[no-untyped-def]
    if FULL:
        tl.store(pointers, values)
    else:
        tl.store(pointers, values, mask=inside)


@triton.jit
def _update(  # type: ignore[no-untyped-def]
    addresses, gradients, block_tensor, block_start, sizes, sums, partials,
    beta, lr, first, momentum, weight_decay, gamma_lr_scale, weights_like,
    UPDATE: tl.constexpr, MOMENTUM: tl.constexpr, NESTEROV: tl.constexpr, MAXIMIZE: tl.constexpr,
    GLOBAL: tl.constexpr, ALIGNED: tl.constexpr, TENSORS: tl.constexpr, TENSORS_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    block = first + tl.program_id(0)
    tensor = tl.load(block_tensor + block)
    size = tl.load(sizes + tensor)
    start = tl.multiple_of(tl.load(block_start + block), BLOCK)
    offsets = start + tl.arange(0, BLOCK)
    row = tensor * 6
    weight_type: tl.constexpr = weights_like.dtype.element_ty
    if GLOBAL:
        every = tl.arange(0, TENSORS_PADDED)
        drift_squared = tl.sum(tl.load(sums + 2 * every, mask=every < TENSORS, other=0.0))
        gamma_squared = tl.sum(tl.load(sums + 2 * every + 1, mask=every < TENSORS, other=0.0))
    else:
        drift_squared = tl.load(sums + 2 * tensor)
        gamma_squared = tl.load(sums + 2 * tensor + 1)
    # β/‖v‖, and 0 where the norm is 0.
    sigma_pull = tl.where(drift_squared == 0, 0.0, tl.load(beta) / tl.sqrt(drift_squared))
    gamma_pull = tl.where(gamma_squared == 0, 0.0, tl.load(beta + 1) / tl.sqrt(gamma_squared))
    rate = tl.load(lr).to(tl.float32)

    # Full blocks need no mask: the body is compiled once with and once without it.
    for FULL in tl.static_range(2):
        if (start + BLOCK <= size) == FULL:
            inside = offsets < size
            sigma_at = _pointer(addresses, row, tl.float32, ALIGNED) + offsets
            gamma_at = _pointer(addresses, row + 1, tl.float32, ALIGNED) + offsets
            sigma = _read(sigma_at, inside, FULL)
            gamma = _read(gamma_at, inside, FULL)
            anchor = _read(_pointer(addresses, row + 2, tl.float32, ALIGNED) + offsets, inside, FULL)

            if UPDATE:
                g = _read(_pointer(gradients, tensor, weight_type, ALIGNED) + offsets, inside, FULL).to(tl.float32)
                if MAXIMIZE:
                    g = -g
                sigma_step = g + sigma_pull * (sigma - anchor) + weight_decay * sigma
                gamma_step = g + (gamma_pull + weight_decay) * gamma
                if MOMENTUM:
                    sigma_momentum_at = _pointer(addresses, row + 3, tl.float32, ALIGNED) + offsets
                    gamma_momentum_at = _pointer(addresses, row + 4, tl.float32, ALIGNED) + offsets
                    sigma_momentum = momentum * _read(sigma_momentum_at, inside, FULL) + sigma_step
                    gamma_momentum = momentum * _read(gamma_momentum_at, inside, FULL) + gamma_step
                    _write(sigma_momentum_at, sigma_momentum, inside, FULL)
                    _write(gamma_momentum_at, gamma_momentum, inside, FULL)
                    sigma_step = sigma_step + momentum * sigma_momentum if NESTEROV else sigma_momentum
                    gamma_step = gamma_step + momentum * gamma_momentum if NESTEROV else gamma_momentum
                sigma = sigma - rate * sigma_step
                gamma = gamma - rate * gamma_lr_scale * gamma_step
                _write(sigma_at, sigma, inside, FULL)
                _write(gamma_at, gamma, inside, FULL)
                weight_at = _pointer(addresses, row + 5, weight_type, ALIGNED) + offsets
                _write(weight_at, (sigma + gamma).to(weight_type), inside, FULL)

            drift = sigma - anchor
            tl.store(partials + 2 * block, tl.sum(drift * drift))
            tl.store(partials + 2 * block + 1, tl.sum(gamma * gamma))


@triton.jit
def _add_up(partials, first_block, end_block, sums, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    tensor = tl.program_id(0)
    end = tl.load(end_block + tensor)
    drift = tl.zeros((CHUNK,), tl.float32)
    gamma = tl.zeros((CHUNK,), tl.float32)
    for start in range(tl.load(first_block + tensor), end, CHUNK):
        block = start + tl.arange(0, CHUNK)
        drift += tl.load(partials + 2 * block, mask=block < end, other=0.0)
        gamma += tl.load(partials + 2 * block + 1, mask=block < end, other=0.0)
    tl.store(sums + 2 * tensor, tl.sum(drift))
    tl.store(sums + 2 * tensor + 1, tl.sum(gamma))


def fits(all_parts: Sequence[Parts]) -> bool:
    """Return whether the kernel handles these parts: single precision, one sharding, supported sizes and options."""
    weights = [weight for parts in all_parts for weight in parts.weights]
    sigmas = [sigma for parts in all_parts for sigma in parts.sigma]
    return (
        all(same_sharding(weight, weights[0]) for weight in weights)
        and all(weight.numel() <= MOST_ELEMENTS for weight in weights)  # not of its piece: ranks must agree
        and all(sigma.dtype == torch.float32 for sigma in sigmas)
        and all(s.stride() == w.stride() for s, w in zip(pieces(sigmas), pieces(weights), strict=True) if w.numel())
        and _options_fit(all_parts)
    )


def _options_fit(all_parts: Sequence[Parts]) -> bool:
    groups = [parts.group for parts in all_parts]
    return not any(group["dampening"] or isinstance(group["weight_decay"], Tensor) for group in groups)


class Launch(NamedTuple):
    """A range of blocks, and one of the weights in them, which have one group and one dtype."""

    group: int
    weight: Tensor
    first: int
    end: int


class FusedSGD:
    """The kernel's tables of addresses and blocks, for one set of tensors.

    It keeps the norms for its next step. Call `measure` after other code wrote σ, γ or the anchor, and build a new one
    when tensors move or groups are added.
    """

    def __init__(self, all_parts: Sequence[Parts], base: Optimizer, global_norm: bool) -> None:
        self.all_parts, self.base, self.global_norm = all_parts, base, global_norm
        self.whole = [w for parts in all_parts for w in parts.weights]
        self.weights = pieces(self.whole)
        self.sharded = is_sharded(self.whole[0])
        device = self.weights[0].device
        sizes = [w.numel() for w in self.weights]
        blocks = [-(-size // BLOCK) for size in sizes]
        launches: dict[tuple[int, torch.dtype], list[int]] = {}  # tensors by group and dtype
        groups = [index for index, parts in enumerate(all_parts) for _ in parts.weights]
        for tensor, (index, weight) in enumerate(zip(groups, self.weights, strict=True)):
            launches.setdefault((index, weight.dtype), []).append(tensor)
        order = [tensor for tensors in launches.values() for tensor in tensors]  # of the tensors' blocks
        ends = dict(zip(order, accumulate(blocks[tensor] for tensor in order), strict=True))
        end_block = [ends[tensor] for tensor in range(len(sizes))]
        first_block = [end - count for end, count in zip(end_block, blocks, strict=True)]
        self.launches = [
            Launch(index, self.weights[tensors[0]], first_block[tensors[0]], end_block[tensors[-1]])
            for (index, _), tensors in launches.items()
        ]

        def table(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int32, device=device)

        self.sizes, self.first_block, self.end_block = table(sizes), table(first_block), table(end_block)
        self.block_tensor = table([tensor for tensor in order for _ in range(blocks[tensor])])
        self.block_start = table([block * BLOCK for tensor in order for block in range(blocks[tensor])])
        self.partials = torch.zeros(sum(blocks), 2, device=device)
        self.sums = torch.zeros(len(sizes), 2, device=device)
        self.lr = [torch.zeros((), device=device) for _ in all_parts]
        self.lr_written = [float("nan")] * len(all_parts)
        rows = [row for parts in all_parts for row in zip(*self._tensors(parts), strict=True)]
        self.aligned = self.tables_aligned = all(tensor.data_ptr() % 16 == 0 for row in rows for tensor in row)
        self.addresses = torch.tensor([[t.data_ptr() for t in row] for row in rows], dtype=torch.int64, device=device)
        self.gradients = torch.zeros(len(sizes), dtype=torch.int64, device=device)
        self.gradients_written: list[int] = []
        self.spare_hosts: list[Tensor] = []
        self.captured_hosts: list[Tensor] = []
        self.measure()

    def _tensors(self, parts: Parts) -> tuple[list[Tensor], ...]:
        """Return the columns of the address table; the momenta are the base optimizer's own state."""
        momenta = []
        for leaves in (parts.sigma, parts.gamma):
            for leaf in leaves:
                momentum = self.base.state[leaf].get("momentum_buffer")
                if momentum is None:
                    self.base.state[leaf]["momentum_buffer"] = torch.zeros_like(leaf)
                elif not same_layout(momentum, leaf):  # loaded from a model with another memory format
                    self.base.state[leaf]["momentum_buffer"] = torch.empty_like(leaf).copy_(momentum)
            momenta.append([self.base.state[leaf]["momentum_buffer"] for leaf in leaves])
        columns = (parts.sigma, parts.gamma, parts.anchor, momenta[0], momenta[1], parts.weights)
        return tuple(pieces(column) for column in columns)

    def step(self, beta: Tensor) -> bool:
        """Take the step of `step_parts`; return False, with nothing done, if gradients or options do not fit."""
        gradients = self._gradients()
        if len(gradients) < len(self.weights) or not _options_fit(self.all_parts):
            return False
        with torch.cuda.device_of(self.sums):  # Triton launches on the current device, in its current stream
            self._locate(gradients)
            for launch in self.launches:
                self._launch(launch, beta, update=True)
            self._add_up()
        torch.autograd.graph.increment_version(self.weights)
        self.base.step()  # there, only the ordinary parameters have a gradient
        for parts in self.all_parts:
            parts.mark_written()
        return True

    def _gradients(self) -> list[Tensor]:
        """Return the gradients that the kernel can read, or this rank's pieces of them."""
        found = [w.grad for w in self.whole]
        if self.sharded:
            pairs = zip(found, self.whole, strict=True)
            found = [piece(g) if g is not None and same_sharding(g, w) else None for g, w in pairs]
        pairs = zip(found, self.weights, strict=True)
        return [g for g, w in pairs if g is not None and same_layout(g, w) and g.dtype == w.dtype]

    def measure(self) -> None:
        """Compute the norms again."""
        with torch.cuda.device_of(self.sums):
            for launch in self.launches:
                self._launch(launch, self.sums, update=False)
            self._add_up()

    def _launch(self, launch: Launch, beta: Tensor, update: bool) -> None:
        group = self.all_parts[launch.group].group
        if launch.first == launch.end:  # other ranks hold all of these weights
            return
        _update[(launch.end - launch.first,)](
            self.addresses,
            self.gradients,
            self.block_tensor,
            self.block_start,
            self.sizes,
            self.sums,
            self.partials,
            beta,
            self._learning_rate(launch.group),
            launch.first,
            float(group["momentum"]),
            float(group["weight_decay"]),
            float(group["gamma_lr_scale"]),
            launch.weight,
            UPDATE=update,
            MOMENTUM=group["momentum"] != 0,
            NESTEROV=bool(group["nesterov"]),
            MAXIMIZE=bool(group["maximize"]),
            GLOBAL=self.global_norm,
            ALIGNED=self.aligned,
            TENSORS=len(self.weights),
            TENSORS_PADDED=triton.next_power_of_2(len(self.weights)),
            BLOCK=BLOCK,
            **LAUNCH,
        )

    def _add_up(self) -> None:
        tables = self.first_block, self.end_block
        _add_up[(len(self.weights),)](self.partials, *tables, self.sums, CHUNK=1024, **LAUNCH)
        if self.sharded:
            self.sums.copy_(sum_over_ranks(self.sums, self.whole[0]))

    def _learning_rate(self, index: int) -> Tensor:
        lr = self.all_parts[index].group["lr"]
        if isinstance(lr, Tensor) and lr.device == self.addresses.device:
            return lr
        if float(lr) != self.lr_written[index]:
            self.lr_written[index] = float(lr)
            self.lr[index].fill_(float(lr))
        return self.lr[index]

    def _locate(self, gradients: Sequence[Tensor]) -> None:
        """Copy the gradients' addresses to the device if they moved since the last step."""
        addresses = [gradient.data_ptr() for gradient in gradients]
        capturing = self.gradients.is_cuda and torch.cuda.is_current_stream_capturing()
        if addresses == self.gradients_written and not capturing and not self.captured_hosts:
            return  # after a capture the table is always rewritten: a replayed graph puts its own addresses there
        # Of this step alone: unaligned tensors are summed in another order, and a resumed run must repeat it.
        self.aligned = self.tables_aligned and not any(address % 16 for address in addresses)
        if capturing:
            # The graph copies from this memory at every replay: it is never written again.
            if not self.spare_hosts:
                raise RuntimeError(f"More than {MOST_CAPTURED} updates in one graph.")
            host = self.spare_hosts.pop()
            self.captured_hosts.append(host)
        else:
            if len(self.spare_hosts) < MOST_CAPTURED:  # nothing can be allocated while a graph is captured
                spare = torch.empty(MOST_CAPTURED, len(addresses), dtype=torch.int64, pin_memory=self.gradients.is_cuda)
                self.spare_hosts.extend(spare)
            host = torch.empty(len(addresses), dtype=torch.int64, pin_memory=self.gradients.is_cuda)
        self.gradients_written = addresses
        host.copy_(torch.tensor(addresses, dtype=torch.int64))
        self.gradients.copy_(host, non_blocking=True)
