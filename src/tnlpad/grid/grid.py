"""What becomes of what goes wrong: words for what a person can mend, a traceback for a bug, the end for a full disk.

A grid of runs: how each of them stands, and the driver that carries out what is missing.

The folder of runs is the only memory. A driver that was killed is started again and finds what is finished; two drivers
on one folder share the work, because a run belongs to whoever holds its lock. A run that fails does not stop the
others, unless the disk is full: then they would all fail.
"""

import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from tnlpad.atomic_files import is_disk_full
from tnlpad.errors import DataError
from tnlpad.grid.estimate import seconds_per_epoch
from tnlpad.grid.executors import Outcome
from tnlpad.records.store import RecordError, RunFolder, RunInUse, finished_summary
from tnlpad.runs.config import RunConfig, from_json
from tnlpad.training.loop import Diverged

# What a person can do something about, and what would happen again: not tried twice, told without a traceback.
EXPECTED = (DataError, RecordError, Diverged, ValueError, OSError)


class DiskFull(Exception):
    """There is no space left for a run, nor for any other; the message names the way out."""


class Result(NamedTuple):
    """What a worker answers; `busy` means that another process is at this run."""

    state: Literal["done", "busy", "failed", "disk full"]
    error: str | None = None
    traceback: str | None = None  # where an error was raised that nobody expected
    test_accuracy: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What went wrong, and the file that says where in the code, if it is a bug."""

    error: str
    traceback: Path | None = None

    def __str__(self) -> str:
        return self.error if self.traceback is None else f"{self.error} (traceback: {self.traceback})"


def failed(error: Exception, *, expected: bool = True) -> Result:
    """The answer to an error that a person can do something about; any other is raised again, as a bug.

    Args:
        error: What was raised, and is being handled.
        expected: False to say where it came from, though it is of a kind that is told without.
    """
    if is_disk_full(error):
        return Result("disk full", error=str(error))
    if not isinstance(error, EXPECTED):
        raise error
    words = str(error) or type(error).__name__
    return Result("failed", error=words, traceback=None if expected else traceback.format_exc())


def answer_of(outcome: Outcome[Any, Result]) -> Result:
    """What a worker answered, or what is known where it could not; raises where the disk is full."""
    result = outcome.value or Result("failed", error=outcome.error, traceback=outcome.traceback)
    if result.state == "disk full":
        raise DiskFull(
            f"The disk is full ({result.error}), so nothing further was tried. Finished runs are kept: free some "
            "space, and run the command again."
        )
    return result


def kept(text: str | None, keep: Callable[[str], Path]) -> Path | None:
    """The file that a traceback is in; None where there is none, or no way to write it."""
    if text is None:
        return None
    with suppress(OSError, RecordError):
        return keep(text)
    return None


State = Literal["done", "running", "begun", "missing", "damaged"]
STATES: tuple[State, ...] = get_args(State)
SECONDS_BETWEEN_LOOKS = 2.0  # at runs of another driver
SECONDS_BETWEEN_CHECKPOINTS = 60.0  # the most that a killed worker loses; writing costs more than an epoch on a GPU


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a run has come: its finished epochs if it is under way, what is wrong with it if it is damaged."""

    state: State
    epochs: int = 0
    problem: str | None = None
    seconds_per_epoch: float | None = None  # of a finished one


def standing(run_id: str, out: Path) -> Standing:
    """How one run stands."""
    folder = RunFolder(out / run_id)
    try:
        if folder.finished:
            return Standing(state="done", seconds_per_epoch=seconds_per_epoch(finished_summary(folder)))
        if folder.in_use:
            return Standing(state="running", epochs=len(folder.epochs()))
        if not folder.begun:
            return Standing(state="missing")
        folder.config()  # reports damage
        return Standing(state="begun", epochs=len(folder.epochs()))
    except (RecordError, OSError) as error:
        return Standing(state="damaged", problem=str(error))


class Job(NamedTuple):
    """What a worker is told: plain data, so that it can be sent anywhere."""

    run_id: str
    config: dict[str, Any]
    out: str
    root: str | None
    device: str


def carry_out(job: Job) -> Result:
    """One run from wherever it stands to its end, in a worker."""
    from tnlpad.runs.run import run

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
    except Exception as error:
        # Settings are refused before a run begins, so that a ValueError after that is a bug.
        return failed(error, expected=type(error) is not ValueError or not RunFolder(folder_of(job)).begun)
    return Result("done", test_accuracy=accuracy, seconds=time.perf_counter() - began)


def folder_of(job: Job) -> Path:
    """Where the job's run lies."""
    return Path(job.out) / job.run_id


def moved(job: Job, out: Path) -> Job:
    """The same run, below another folder: for a machine that does not share the driver's."""
    return job._replace(out=str(out))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run of the grid ended; without a failure it is finished, here or by another driver."""

    run_id: str
    config: RunConfig
    failure: Failure | None = None
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
    """Carry every run to its end and yield how it ended, each once; raises `DiskFull` rather than go on in vain.

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
        waiting = True
        for run_id, config in list(left.items()):
            now = standing(run_id, out)
            if now.state in ("done", "damaged"):
                failure = Failure(error=now.problem) if now.problem is not None else None
                yield Ended(run_id=run_id, config=left.pop(run_id), failure=failure)
            elif now.state != "running":
                ready.append(Job(run_id, config.to_json(), folder, place, device))
        if ready:
            with closing(execute(carry_out, ready)) as outcomes:
                for outcome in outcomes:
                    if outcome.value is None or outcome.value.state != "busy":
                        waiting = False
                        yield _ended(outcome, left.pop(outcome.job.run_id), out)
        # Not only where none was ready: a machine with a folder of its own may say that a run is busy there.
        if left and waiting:
            if on_wait is not None:
                on_wait(len(left))
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _ended(outcome: Outcome[Job, Result], config: RunConfig, out: Path) -> Ended:
    result, run_id = answer_of(outcome), outcome.job.run_id
    failure = None
    if result.error is not None:
        failure = Failure(error=result.error, traceback=kept(result.traceback, RunFolder(out / run_id).keep_error))
    return Ended(
        run_id=run_id,
        config=config,
        failure=failure,
        test_accuracy=result.test_accuracy,
        seconds=result.seconds,
        attempts=outcome.attempts,
    )
