"""Run the steps of an epoch: one by one, or captured once as a CUDA graph and replayed.

A training step of a small network is a hundred short kernels, and launching them from Python takes longer than running
them. A captured step is one launch: reading the next rows of the epoch's plan, augmentation, forward, backward and
update. Nothing in it comes from the host: the plan and the number of the step are on the device.

The first steps run one by one and are part of the training: in them, libraries choose their algorithms and optimizers
create their state. A replay runs the same kernels on the same numbers, so the result is the same.
"""

import sys
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from tnlpad.core.compiled import compile_options
from tnlpad.methods.protocol import Method, phase_of, steps_of
from tnlpad.ranks import group
from tnlpad.types import Batch, BatchSource, Clock

EngineName = Literal["auto", "eager", "graph"]
EAGER_STEPS = 3  # of each batch size, before it is captured
# Steps that the host may be ahead of the GPU: enough to keep the GPU busy. Then the host sleeps, because there may be
# more runs than cores.
STEPS_AHEAD = 64
Result = TypeVar("Result")
OnStep = Callable[[int, int, int], None] | None  # called with epoch, step and steps per epoch


class PlannedSource(Protocol):
    """Batches that are functions of rows on the device, such as `tnlpad.data.loader.DeviceLoader`."""

    batch_size: int

    def __len__(self) -> int: ...

    def plan(self) -> Tensor: ...

    def batch(self, rows: Tensor) -> Batch: ...


class Engine(Protocol):
    """Runs the steps of an epoch."""

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        """Train on every batch, or for as many steps as the method takes; return their losses, on the device."""


def choose_engine(
    name: EngineName, method: Method, loader: Any, *, device: torch.device, bf16: bool = False, compiled: bool = False
) -> Engine:
    """Return the engine of this name; "auto" replays graphs where possible."""
    if can_replay(name, loader, device) and name != "eager":
        return Replayed(method, loader, bf16=bf16, compiled=compiled)
    return Eager(method, loader, bf16=bf16)


def can_replay(name: EngineName, loader: Any, device: torch.device) -> bool:
    """Return whether steps can be replayed as CUDA graphs; raise ValueError if the engine is unknown or needs that."""
    if name not in ("auto", "eager", "graph"):
        raise ValueError(f"engine={name!r}: choose auto, eager or graph.")
    possible = device.type == "cuda" and hasattr(loader, "plan") and group.count() == 1
    if name == "graph" and not possible:
        raise ValueError("engine='graph': needs a GPU, data in memory and one process. Use auto.")
    return possible


class Eager:
    """Launches every kernel from Python."""

    def __init__(self, method: Method, loader: BatchSource, *, bf16: bool = False) -> None:
        self.method, self.loader, self.bf16 = method, loader, bf16
        self.batch_size: int | None = None  # of the first batch; the last one may be short

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        losses: list[Tensor] = []
        steps = steps_of(self.method, len(self.loader))
        batches = self.loader if steps == len(self.loader) else islice(_endless(self.loader), steps)
        for step, batch in enumerate(batches, start=1):
            self.batch_size = self.batch_size or len(batch.labels)
            autocast = torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=self.bf16)
            full = len(batch.labels) == self.batch_size
            with autocast, compiled_if(full), group.batch(len(batch.labels)):
                losses.append(self.method.step(batch, clock))
            if on_step is not None:
                on_step(clock.epoch, step, steps)
        return torch.stack(losses)


def _endless(loader: BatchSource) -> Iterator[Batch]:
    """Yield the batches of the loader again and again, in a new order each time."""
    while True:
        yield from loader


class Replayed:
    """Replays one graph for each phase and batch size: the last batch of an epoch may be short."""

    def __init__(self, method: Method, loader: PlannedSource, *, bf16: bool = False, compiled: bool = False) -> None:
        self.method, self.loader, self.bf16 = method, loader, bf16
        self.read = torch.compile(self._read, **compile_options()) if compiled else self._read
        self.store = torch.compile(self._store, **compile_options()) if compiled else self._store
        self.graphs: dict[tuple[Hashable, int], Captured[list[Tensor | None]]] = {}
        # A captured step reads and writes these, so they keep the addresses of the first epoch.
        self.plan = self.losses = self.next_step = torch.empty(0)

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        steps, losses = steps_of(self.method, len(self.loader)), []
        for first in range(0, steps, len(self.loader)):
            losses.append(self._pass(clock, on_step, range(first, min(first + len(self.loader), steps)), steps))
        return torch.cat(losses)

    def _pass(self, clock: Clock, on_step: OnStep, numbers: range, steps: int) -> Tensor:
        """Take the steps of these numbers, at most one per batch."""
        self._begin(self.loader.plan())
        rows, phase = len(self.plan), phase_of(self.method)
        launched: deque[torch.cuda.Event] = deque()
        gradients: list[Tensor | None] = []
        for step, number in enumerate(numbers):
            size = min(self.loader.batch_size, rows - step * self.loader.batch_size)
            if (phase, size) not in self.graphs:
                self.graphs[phase, size] = Captured(partial(self._step, size, clock), eager_runs=EAGER_STEPS)
            with compiled_if(size == self.loader.batch_size):
                gradients = self.graphs[phase, size]()
            if self.plan.is_cuda:
                launched.append(current_event())
                if len(launched) > STEPS_AHEAD:
                    launched.popleft().synchronize()
            if on_step is not None:
                on_step(clock.epoch, number + 1, steps)
        if launched:
            launched.pop().synchronize()
        # Every graph has gradients of its own, and the parameters hold those of the graph that was captured last.
        for parameter, gradient in zip(self._parameters(), gradients, strict=True):
            parameter.grad = gradient
        return self.losses[: len(numbers)].clone()

    def _begin(self, plan: Tensor) -> None:
        if self.plan.shape != plan.shape:
            self.plan, self.losses = plan, torch.zeros(len(self.loader), device=plan.device)
            self.next_step = torch.zeros(1, dtype=torch.int64, device=plan.device)
        self.plan.copy_(plan)
        self.next_step.zero_()

    def _parameters(self) -> list[Tensor]:
        return [p for each in self.method.optimizers for group in each.param_groups for p in group["params"]]

    def _step(self, size: int, clock: Clock) -> list[Tensor | None]:
        """Run a step and return the gradients.

        Captured, a step would freeze the clock, so methods read theirs from the device (see `Method`).
        """
        batch = self.read(self.plan, self.next_step, size)
        with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self.method.step(batch, clock)
        self.store(self.losses, self.next_step, loss)
        return [parameter.grad for parameter in self._parameters()]

    def _read(self, plan: Tensor, step: Tensor, size: int) -> Batch:
        return self.loader.batch(plan[step * self.loader.batch_size + torch.arange(size, device=plan.device)])

    @staticmethod
    def _store(losses: Tensor, step: Tensor, loss: Tensor) -> None:
        losses.index_copy_(0, step, loss.float().reshape(1))
        step += 1


class Captured(Generic[Result]):
    """A function without arguments whose GPU work is replayed from call number eager_runs + 1 on.

    Only values on the device may differ between calls. Every replay returns the same tensors with new values. If the
    function cannot be captured, it runs eagerly, with a warning. If memory was short, it is captured again after twice
    as many calls: other processes on the GPU may have ended.
    """

    def __init__(self, function: Callable[[], Result], *, eager_runs: int) -> None:
        self.function, self.eager_runs = function, eager_runs
        self.calls, self.capture_at = 0, eager_runs
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Result | None = None

    def __call__(self) -> Result:
        if self.graph is None and self.calls == self.capture_at:
            self._capture()
        self.calls += 1
        if self.graph is None:
            return self.function()
        self.graph.replay()
        return self.result  # type: ignore[return-value]

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                self.result = self.function()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if "out of memory" in reason:
                self.capture_at = 2 * self.calls
            if self.calls == self.eager_runs:
                warnings.warn(f"No CUDA graph; training launches every kernel, which is slower: {reason}", stacklevel=3)
            return
        self.graph = graph


def current_event() -> torch.cuda.Event:
    """Record an event in the current stream; a host that waits for it sleeps instead of spinning."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Use a new stream on a GPU: the default one cannot be captured."""
    if device.type != "cuda":
        yield
        return
    outer, stream = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    stream.wait_stream(outer)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outer.wait_stream(stream)


def compiled_if(wanted: bool) -> AbstractContextManager[object]:
    """Run compiled networks eagerly unless `wanted`: compiling for another batch size would take minutes."""
    if wanted or "torch._dynamo" not in sys.modules:  # nothing is compiled yet, and importing it takes a second
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
