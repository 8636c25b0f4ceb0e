"""How the steps of an epoch are carried out: one by one, or captured once as a CUDA graph and replayed.

A training step of a small network is a hundred short kernels, and launching them from Python takes longer than running
them. A captured step is launched as a whole: reading the next rows of the epoch's plan, augmentation, forward,
backward and update. Nothing in it comes from the host: the plan lies on the device, and so does the number of the step.

The first steps run one by one, as real steps of the training and not as a rehearsal: libraries choose their algorithms
and optimizers make their state there. What follows is the same kernels on the same numbers, so the result is the same.
"""

import sys
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from tnlpad.core.compiled import compile_options
from tnlpad.methods.protocol import Method, phase_of
from tnlpad.types import Batch, BatchSource, Clock

EngineName = Literal["auto", "eager", "graph"]
EAGER_STEPS = 3  # of each size, before it is captured
# How far the host may be ahead of the GPU: enough that it never runs dry, and then the host sleeps, because there may
# be more runs than cores.
STEPS_AHEAD = 64
Result = TypeVar("Result")
OnStep = Callable[[int, int, int], None] | None  # told epoch, step and steps per epoch


class PlannedSource(Protocol):
    """Batches that are functions of rows on the device, as `tnlpad.data.loader.DeviceLoader` has them."""

    batch_size: int

    def __len__(self) -> int: ...

    def plan(self) -> Tensor: ...

    def batch(self, rows: Tensor) -> Batch: ...


class Engine(Protocol):
    """Carries out the steps of an epoch."""

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        """Train on every batch; returns the loss of every step, on the device."""


def choose_engine(
    name: EngineName, method: Method, loader: Any, *, device: torch.device, bf16: bool = False, compiled: bool = False
) -> Engine:
    """What was asked for; "auto" replays graphs wherever that is possible."""
    if name not in ("auto", "eager", "graph"):
        raise ValueError(f'engine={name!r}: choose "auto", "eager" or "graph".')
    possible = device.type == "cuda" and hasattr(loader, "plan")
    if name == "graph" and not possible:
        what = "batches that are streamed from files" if device.type == "cuda" else f"the device {device}"
        raise ValueError(f'engine="graph" does not go with {what}: use "auto".')
    if possible and name != "eager":
        return Replayed(method, loader, bf16=bf16, compiled=compiled)
    return Eager(method, loader, bf16=bf16)


class Eager:
    """Every step launched from Python."""

    def __init__(self, method: Method, loader: BatchSource, *, bf16: bool = False) -> None:
        self.method, self.loader, self.bf16 = method, loader, bf16
        self.full: int | None = None  # the size of the first batch

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        losses = []
        for step, batch in enumerate(self.loader, start=1):
            self.full = self.full or len(batch.labels)
            autocast = torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=self.bf16)
            with autocast, compiled_if(len(batch.labels) == self.full):
                losses.append(self.method.step(batch, clock))
            _tell(on_step, clock, step, len(self.loader))
        return torch.stack(losses)


class Replayed:
    """Every step a graph, one for each phase and each size of batch: the last batch of an epoch may be short."""

    def __init__(self, method: Method, loader: PlannedSource, *, bf16: bool = False, compiled: bool = False) -> None:
        self.method, self.loader, self.bf16 = method, loader, bf16
        self.read = torch.compile(self._read, **compile_options()) if compiled else self._read
        self.note = torch.compile(self._note, **compile_options()) if compiled else self._note
        self.graphs: dict[tuple[Hashable, int], Captured[None]] = {}
        # What a captured step reads and writes; made by the first epoch, kept for their addresses.
        self.plan = self.losses = self.place = torch.empty(0)

    def epoch(self, clock: Clock, on_step: OnStep) -> Tensor:
        self._begin(self.loader.plan())
        rows, phase = len(self.plan), phase_of(self.method)
        launched: deque[torch.cuda.Event] = deque()
        for step in range(len(self.loader)):
            size = min(self.loader.batch_size, rows - step * self.loader.batch_size)
            if (phase, size) not in self.graphs:
                self.graphs[phase, size] = Captured(partial(self._step, size, clock), eager_runs=EAGER_STEPS)
            with compiled_if(size == self.loader.batch_size):
                self.graphs[phase, size]()
            if self.plan.is_cuda:
                launched.append(reached())
                if len(launched) > STEPS_AHEAD:
                    launched.popleft().synchronize()
            _tell(on_step, clock, step + 1, len(self.loader))
        if launched:
            launched.pop().synchronize()
        return self.losses.clone()

    def _begin(self, plan: Tensor) -> None:
        if self.plan.shape != plan.shape:
            self.plan, self.losses = plan, torch.zeros(len(self.loader), device=plan.device)
            self.place = torch.zeros(1, dtype=torch.int64, device=plan.device)  # the number of the next step
        self.plan.copy_(plan)
        self.place.zero_()

    def _step(self, size: int, clock: Clock) -> None:
        """What is captured. The clock would be frozen in it: methods read theirs from the device (see `Method`)."""
        batch = self.read(self.plan, self.place, size)
        with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self.method.step(batch, clock)
        self.note(self.losses, self.place, loss)

    def _read(self, plan: Tensor, place: Tensor, size: int) -> Batch:
        return self.loader.batch(plan[place * self.loader.batch_size + torch.arange(size, device=plan.device)])

    @staticmethod
    def _note(losses: Tensor, place: Tensor, loss: Tensor) -> None:
        losses.index_copy_(0, place, loss.float().reshape(1))
        place += 1


def _tell(on_step: OnStep, clock: Clock, step: int, steps: int) -> None:
    if on_step is not None:
        on_step(clock.epoch, step, steps)


class Captured(Generic[Result]):
    """A function without arguments whose GPU work is replayed from its (eager_runs + 1)-th call on.

    It must do the same every time but for what it reads from the device. Its result is made of the same tensors at
    every replay, with new values. If it cannot be captured it goes on as it is, with a warning.
    """

    def __init__(self, function: Callable[[], Result], *, eager_runs: int) -> None:
        self.function, self.eager_runs = function, eager_runs
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Result | None = None

    def __call__(self) -> Result:
        if self.graph is None and self.eager_runs == 0:
            self._capture()
        if self.graph is None:
            self.eager_runs -= 1  # stays below 0 after a failed capture, which is not tried again
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
            warnings.warn(f"No CUDA graph, so every kernel is launched by itself, slower: {reason}", stacklevel=3)
            return
        self.graph = graph


def reached() -> torch.cuda.Event:
    """This point of the current stream; who waits for it sleeps, where torch by itself would keep a core spinning."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU a stream other than the default one, which cannot be captured."""
    if device.type != "cuda":
        yield
        return
    outer, stream = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)


def compiled_if(wanted: bool) -> AbstractContextManager[object]:
    """Compiled networks are compiled for one size of batch: others run as they are, without minutes of compiling."""
    if wanted or "torch._dynamo" not in sys.modules:  # nothing is compiled yet, and looking costs a second
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
