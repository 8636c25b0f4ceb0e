"""A grid of runs: how each of them stands, and the driver that carries out what is missing.

The folder of runs is the only memory. A driver that was killed is started again and finds what is finished; two drivers
on one folder share the work, because a run belongs to whoever holds its lock.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from tnlpad.data.errors import DataError
from tnlpad.experiments.config import RunConfig, from_json
from tnlpad.experiments.estimate import seconds_per_epoch
from tnlpad.experiments.executors import Outcome
from tnlpad.noise.errors import NoiseDataError
from tnlpad.records.store import RecordError, RunFolder, RunInUse
from tnlpad.training.loop import Diverged

State = Literal["done", "running", "begun", "missing", "damaged"]
STATES: tuple[State, ...] = get_args(State)
SECONDS_BETWEEN_LOOKS = 2.0  # at runs of another driver
SECONDS_BETWEEN_CHECKPOINTS = 60.0  # the most that a killed worker loses; writing costs more than an epoch on a GPU
# What a person can do something about, and what would happen again: not tried twice, told without a traceback.
EXPECTED = (DataError, NoiseDataError, RecordError, Diverged, ValueError, OSError)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a run has come: its finished epochs if it is under way, what is wrong with it if it is damaged."""

    state: State
    epochs: int = 0
    problem: str | None = None
    seconds_per_epoch: float | None = None  # of a finished one


def standing(run_id: str, out: Path) -> Standing:
    """How one run stands. A finished one is read only as far as its summary: there may be thousands."""
    folder = RunFolder(out / run_id)
    try:
        if folder.finished:
            return _finished(folder, run_id)
        if folder.in_use:
            return Standing(state="running", epochs=len(folder.epochs()))
        if not folder.begun:
            return Standing(state="missing")
        folder.config()  # reports damage
        return Standing(state="begun", epochs=len(folder.epochs()))
    except (RecordError, OSError) as error:
        return Standing(state="damaged", problem=str(error))


def _finished(folder: RunFolder, run_id: str) -> Standing:
    summary = folder.summary()
    if summary.get("run_id") != run_id:
        problem = f"{folder.summary_file} is the summary of another run. Restore it, or remove the folder."
        return Standing(state="damaged", problem=problem)
    return Standing(state="done", seconds_per_epoch=seconds_per_epoch(summary))


class Job(NamedTuple):
    """What a worker is told: plain data, so that it can be sent anywhere."""

    run_id: str
    config: dict[str, Any]
    out: str
    root: str | None
    device: str


class Result(NamedTuple):
    """What a worker answers; `busy` means that another process is at this run."""

    state: Literal["done", "busy", "failed"]
    error: str | None = None
    test_accuracy: float | None = None
    seconds: float | None = None


def carry_out(job: Job) -> Result:
    """One run from wherever it stands to its end, in a worker."""
    from tnlpad.experiments.run import run

    began = time.perf_counter()
    try:
        if RunFolder(folder_of(job)).in_use:  # known at once, before data are read for it
            return Result("busy")
        folder = run(
            from_json(job.config),
            Path(job.out),
            root=Path(job.root) if job.root is not None else None,
            device=job.device,
            checkpoint_every_seconds=SECONDS_BETWEEN_CHECKPOINTS,
        )
        accuracy = float(folder.summary()["chosen"]["test_accuracy"])
    except RunInUse:
        return Result("busy")
    except EXPECTED as error:
        return Result("failed", error=str(error))
    return Result("done", test_accuracy=accuracy, seconds=time.perf_counter() - began)


def folder_of(job: Job) -> Path:
    """Where the job's run lies."""
    return Path(job.out) / job.run_id


def moved(job: Job, out: Path) -> Job:
    """The same run, below another folder: for a machine that does not share the driver's."""
    return job._replace(out=str(out))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run of the grid ended; without an error it is finished, here or by another driver."""

    run_id: str
    config: RunConfig
    error: str | None = None
    test_accuracy: float | None = None
    seconds: float | None = None
    attempts: int = 0


Executor = Callable[[Callable[[Job], Result], Sequence[Job]], Generator[Outcome[Job, Result], None, None]]


def run_grid(
    configs: Iterable[RunConfig],
    out: Path,
    *,
    execute: Executor,
    root: Path | None = None,
    device: str = "cpu",
    on_wait: Callable[[int], None] | None = None,
) -> Generator[Ended, None, None]:
    """Carry every run to its end and yield how it ended, each once; a run that fails does not stop the others.

    Args:
        configs: The runs, in the order in which to start them; finished ones are yielded as they are.
        out: The folder of all runs.
        execute: Where to run them: `executors.execute` with its number of workers, or the like.
        root: Where datasets lie.
        device: Where to train.
        on_wait: Told how many runs remain that other processes are at, whenever there is nothing else to do.
    """
    left = {config.run_id: config for config in configs}
    # Absolute: a worker elsewhere has another working directory.
    folder, place = str(out.absolute()), str(root.absolute()) if root is not None else None
    while left:
        ready: list[Job] = []
        for run_id, config in list(left.items()):
            now = standing(run_id, out)
            if now.state in ("done", "damaged"):
                yield Ended(run_id=run_id, config=left.pop(run_id), error=now.problem)
            elif now.state != "running":
                ready.append(Job(run_id, config.to_json(), folder, place, device))
        if ready:
            with closing(execute(carry_out, ready)) as outcomes:
                for outcome in outcomes:
                    if outcome.value is None or outcome.value.state != "busy":
                        yield _ended(outcome, left.pop(outcome.job.run_id))
        elif left:
            if on_wait is not None:
                on_wait(len(left))
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _ended(outcome: Outcome[Job, Result], config: RunConfig) -> Ended:
    result = outcome.value or Result("failed", error=outcome.error)
    return Ended(
        run_id=outcome.job.run_id,
        config=config,
        error=result.error,
        test_accuracy=result.test_accuracy,
        seconds=result.seconds,
        attempts=outcome.attempts,
    )
