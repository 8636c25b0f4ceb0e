"""The processes (ranks) that train one network together, and what they exchange.

Every rank runs the same program with the same random streams, so all of them know which samples a batch consists of.
A rank computes the outputs of its share of a batch. `whole` then gives every rank the outputs of the whole batch, and
all ranks compute the same loss, the same selection and the same state per sample. The backward pass goes through the
rank's own rows, and torch's `DistributedDataParallel` adds up the gradients. So N ranks train as one process does, up
to rounding.

Rows are exchanged as a sum: each rank puts its rows into a table of zeros. Every backend offers sums on every device,
shares may differ in size, and logits are few.

Without a launcher there is one rank, and nothing here does anything.
"""

import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tnlpad.ranks.launch import TIMEOUT_SECONDS, launched_count, local_count, local_rank
from tnlpad.regular_files import open_regular

Result = TypeVar("Result")
# Buffers are equal without being sent: BatchNorm uses statistics of the whole batch. The option was renamed.
BUFFERS_STAY: dict[str, Any] = {"broadcast_buffers": False}
if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters:
    BUFFERS_STAY = {"forward_sync_buffers": False}
ANSWER_SECONDS = 10.0  # that a rank has to show that it is still there


OF_FIRST = "raised on rank 0"


class RankLost(Exception):
    """A rank was killed or does not answer."""


@dataclass(kw_only=True, eq=False)
class _Group:
    """This rank's place among the others. `control` carries Python objects, on the CPU."""

    rank: int
    count: int
    control: dist.ProcessGroup
    roll_call: dist.ProcessGroup  # after a failure, which leaves the other groups unusable
    timeout: float
    wrapped: dict[nn.Module, DistributedDataParallel] = field(default_factory=dict)
    batch_size: int | None = None  # of the current step
    divided: bool = False  # whether the current forward pass sees a share of its batch


_group: _Group | None = None
_alone = False


def count() -> int:
    """Return the number of ranks, or 1 within `alone`."""
    return 1 if _group is None or _alone else _group.count


def rank() -> int:
    """Return the number of this rank, from 0. Rank 0 writes all records."""
    return 0 if _group is None else _group.rank


@contextmanager
def joined(device: torch.device, timeout: float = TIMEOUT_SECONDS) -> Iterator[torch.device]:
    """Join the ranks that were started together with this process; yield the device of this rank.

    A GPU of each rank is chosen by its number on its machine. NCCL connects them, or gloo if ranks share a GPU.

    Args:
        device: Where to train; a GPU without a number is any of the machine's.
        timeout: Seconds after which a rank that does not answer is taken for lost.
    """
    global _group
    if _group is not None or (launched_count() == 1 and not _others_initialised()):
        yield device
        return
    place = _own_device(device)
    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group(_backend(place), timeout=timedelta(seconds=timeout))
    _group = _Group(
        rank=dist.get_rank(),
        count=dist.get_world_size(),
        control=dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)),
        roll_call=dist.new_group(backend="gloo"),
        timeout=timeout,
    )
    try:
        with _naming_lost_ranks():
            yield place
            _leave_together()
    finally:
        _group = None
    if ours:
        dist.destroy_process_group()


def _others_initialised() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _own_device(device: torch.device) -> torch.device:
    if str(device) != "cuda":  # a CPU, or a GPU of this number
        return device
    place = torch.device("cuda", local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(place)
    return place


def _backend(device: torch.device) -> str:
    return "nccl" if device.type == "cuda" and local_count() <= torch.cuda.device_count() else "gloo"


def _leave_together() -> None:
    """Wait for all ranks: a connection that closes while another rank reads from it would be an error there."""
    assert _group is not None, "called by a rank that joined"
    dist.barrier(group=_group.control)


# Shares of a batch ----------------------------------------------------------------------------------------------------


@contextmanager
def alone() -> Iterator[None]:
    """Within the block every rank computes whole batches by itself, the same as the others."""
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


def divides(total: int) -> bool:
    """Return whether the ranks share a batch of this size; one that is smaller than their number they all compute."""
    return 1 < count() <= total


def share(total: int) -> slice:
    """Return the rows of this rank among `total`: consecutive, and at most one more than another rank has."""
    if not divides(total):
        return slice(0, total)
    return slice(rank() * total // count(), (rank() + 1) * total // count())


@contextmanager
def batch(total: int) -> Iterator[None]:
    """Within the block, forward passes that name no size are of a batch of this size."""
    if _group is None:
        yield
        return
    before, _group.batch_size = _group.batch_size, total
    try:
        yield
    finally:
        _group.batch_size = before


def batch_size() -> int:
    """Return the size of the current step's batch over all ranks."""
    if _group is None or _group.batch_size is None:
        raise RuntimeError("On several ranks a forward pass outside a training step needs the size of its batch.")
    return _group.batch_size


@contextmanager
def divided_pass(total: int) -> Iterator[None]:
    """Within the block, layers see a share of a batch of this size, such as BatchNorm, which exchanges statistics."""
    assert _group is not None, "there are several ranks"
    before, _group.divided = _group.divided, divides(total)
    try:
        yield
    finally:
        _group.divided = before


def sees_share() -> bool:
    """Return whether the current forward pass sees a share of its batch."""
    return _group is not None and not _alone and _group.divided


def synchronised(network: nn.Module) -> nn.Module:
    """Return the network as it is called in training: its gradients are averaged over the ranks."""
    if _group is None or not (torch.is_grad_enabled() and network.training):
        return network
    if network not in _group.wrapped:
        _group.wrapped[network] = DistributedDataParallel(network, **BUFFERS_STAY)
    return _group.wrapped[network]


# Exchange -------------------------------------------------------------------------------------------------------------


def add_up(tensor: Tensor) -> Tensor:
    """Add the tensors of all ranks, in place."""
    if count() > 1:
        dist.all_reduce(tensor)
    return tensor


def whole(rows: Tensor, total: int) -> Tensor:
    """Return all `total` rows from this rank's share of them, on every rank. Gradients do not pass."""
    if not divides(total):
        return rows
    table = rows.new_zeros((total, *rows.shape[1:]))
    table[share(total)] = rows
    return add_up(table)


def whole_outputs(outputs: Tensor, parts: int, total: int) -> Tensor:
    """Return the outputs of `parts` batches of `total` samples each, from this rank's share of each batch.

    Every rank then computes the same loss, and a gradient passes through its own rows.
    """
    if not divides(total):
        return outputs
    by_sample = outputs.unflatten(0, (parts, -1)).transpose(0, 1)
    gather: Callable[[Tensor, int], Tensor] = _Whole.apply
    return gather(by_sample, total).transpose(0, 1).flatten(0, 1)


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int) -> Tensor:
        ctx.total = total
        return whole(rows, total)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # The gradient of the weights is the sum over the ranks; `DistributedDataParallel` takes the mean.
        return gradient[share(ctx.total)] * count(), None


def on_first(function: Callable[[], Result]) -> Result:
    """Call the function on rank 0 and return its result on every rank; an error there is raised on every rank."""
    if _group is None:
        return function()
    answer: list[Any] = [None, None]
    failed: Exception | None = None
    if _group.rank == 0:
        try:
            answer[0] = function()
        except Exception as error:
            failed, answer[1] = error, portable(error)
    dist.broadcast_object_list(answer, src=0, group=_group.control)
    if failed is not None:
        raise failed
    if answer[1] is not None:
        answer[1].add_note(OF_FIRST)
        raise answer[1]
    result: Result = answer[0]
    return result


def opened_by_first(path: Path) -> BinaryIO:
    """Open a file of rank 0 on every rank; only where it is sent to others is it in memory as a whole."""
    return open_regular(path) if _group is None else io.BytesIO(on_first(lambda: _content(path)))


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def from_first(value: Result) -> Result:
    """Return the value of rank 0 on every rank."""
    return on_first(lambda: value)


@contextmanager
def held_by_first(resource: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Within the block rank 0 holds a resource, such as a lock. If it cannot have it, every rank raises the error."""
    with ExitStack() as stack:

        def enter() -> None:
            stack.enter_context(resource())

        on_first(enter)
        yield


def from_each(value: Result) -> list[Result]:
    """Return the values of all ranks, in their order, on every rank."""
    if _group is None:
        return [value]
    values: list[Any] = [None] * _group.count
    dist.all_gather_object(values, value, group=_group.control)
    return values


def require_same(value: Any, what: str) -> None:
    """Raise ValueError if the ranks do not agree: they would silently train something else together."""
    values = from_each(value)
    for number, other in enumerate(values):
        if other != values[0]:
            raise ValueError(
                f"Rank {number} has another {what} than rank 0 ({other} and {values[0]}). All ranks need the same "
                "command, the same data and the same versions."
            )


def portable(error: BaseException) -> Exception:
    """Return the error, or one with its words if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an exception class may refuse to be copied in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


# Lost ranks -----------------------------------------------------------------------------------------------------------


@contextmanager
def _naming_lost_ranks() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not _of_communication(error):
            raise
        raise RankLost(_who_is_lost(error)) from error


def _of_communication(error: RuntimeError) -> bool:
    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in ("gloo", "nccl", "connection closed"))


def _who_is_lost(error: RuntimeError) -> str:
    """Ask who is still there. Only rank 0 learns it; the other ranks answer it."""
    assert _group is not None, "called by a rank that joined"
    again = "Start the same command again: the run continues from its last checkpoint."
    try:
        dist.monitored_barrier(_group.roll_call, timedelta(seconds=ANSWER_SECONDS), wait_all_ranks=True)
    except RuntimeError as missing:
        numbers = str(missing).split("monitoredBarrier")[0]
        who = [word.strip(",") for word in numbers.split() if word.strip(",").isdigit()]
        if _group.rank == 0 and who:
            names = ("Rank " if len(who) == 1 else "Ranks ") + " and ".join(who)
            verb = "was killed or hangs" if len(who) == 1 else "were killed or hang"
            return f"{names} {verb}: no answer within {_group.timeout:g} seconds. {again}"
    return f"Another rank was killed or hangs ({str(error).splitlines()[0]}). {again}"
