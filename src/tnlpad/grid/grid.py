"""A grid of runs: the state of each, and the driver that finishes those that are missing.

The folder of runs is the only state. A driver that was killed can be started again and skips finished runs. Two drivers
on one folder share the work through the locks of the runs. A failed run does not stop the others, unless the disk is
full, since then all would fail.
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
from tnlpad.grid.own_data import OwnData, open_own
from tnlpad.records.store import RecordError, RunFolder, RunInUse
from tnlpad.records.summaries import finished_summary
from tnlpad.runs.config import RunConfig, from_json
from tnlpad.runs.recipes import scoring_interval
from tnlpad.training.loop import Diverged

State = Literal["done", "running", "begun", "missing", "damaged"]
STATES: tuple[State, ...] = get_args(State)
POLL_SECONDS = 2.0  # between checks for runs of another driver
CHECKPOINT_SECONDS = 60.0  # the most that a killed worker loses; on a GPU a checkpoint takes longer than an epoch


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """State of a run, with its finished epochs if it is unfinished, and its problem if it is damaged."""

    state: State
    epochs: int = 0
    problem: str | None = None
    seconds_per_epoch: float | None = None  # of a finished run


def run_status(run_id: str, out: Path) -> RunStatus:
    """Read the state of a run from its folder."""
    folder = RunFolder(out / run_id)
    try:
        if folder.finished:
            return RunStatus(state="done", seconds_per_epoch=seconds_per_epoch(finished_summary(folder)))
        if folder.in_use:
            return RunStatus(state="running", epochs=len(folder.epochs()))
        if not folder.begun:
            return RunStatus(state="missing")
        folder.config()  # raises if it is damaged
        return RunStatus(state="begun", epochs=len(folder.epochs()))
    except (RecordError, OSError) as error:
        return RunStatus(state="damaged", problem=str(error))


# The driver -----------------------------------------------------------------------------------------------------------


class DiskFull(Exception):
    """There is no disk space left for any run."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error message, the file of the traceback if it is a bug, and whether data or records are the reason."""

    error: str
    traceback: Path | None = None
    bad_data: bool = False

    def __str__(self) -> str:
        return self.error if self.traceback is None else f"{self.error} (traceback: {self.traceback})"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Result of a run of the grid; without a failure it is finished, by this driver or another."""

    run_id: str
    config: RunConfig
    failure: Failure | None = None
    test_accuracy: float | None = None
    seconds: float | None = None
    attempts: int = 0


class Job(NamedTuple):
    """A run for a worker, as plain data that can be sent anywhere."""

    run_id: str
    config: dict[str, Any]
    out: str
    root: str | None
    device: str
    weights: str | None = None
    own: OwnData | None = None


class Result(NamedTuple):
    """Response of a worker; `busy` means that another process has the run."""

    state: Literal["done", "busy", "failed", "disk full"]
    error: str | None = None
    traceback: str | None = None  # of an unexpected error
    bad_data: bool = False  # whether data or records are the reason of a failure
    test_accuracy: float | None = None
    seconds: float | None = None


Executor = Callable[[Callable[[Job], Result], Sequence[Job]], Generator[Outcome[Job, Result], None, None]]


def run_grid(
    configs: Iterable[RunConfig],
    out: Path,
    *,
    execute: Executor,
    root: Path | None = None,
    device: str = "cpu",
    weights: Path | None = None,
    own: OwnData | None = None,
    on_wait: Callable[[int], None] | None = None,
) -> Generator[Ended, None, None]:
    """Finish all runs and yield the result of each once; raises `DiskFull` if the disk is full.

    Args:
        configs: The runs, in the order in which to start them; finished ones are yielded at once.
        out: Folder of all runs.
        execute: Where to run them, such as `executors.execute` with its number of workers.
        root: Folder of datasets.
        device: Device to train on.
        weights: File of pretrained weights, if it is not in the folder of datasets.
        own: The user's own data, if the runs are on them.
        on_wait: Called with the number of runs left when other processes have all of them.
    """
    left = {config.run_id if own is None else config.named(own.title): config for config in configs}
    # Absolute paths: a worker on another machine has another working directory.
    folder = str(out.absolute())
    datasets, file = (str(path.absolute()) if path is not None else None for path in (root, weights))
    while left:
        ready: list[Job] = []
        waiting = True
        for run_id, config in list(left.items()):
            status = run_status(run_id, out)
            if status.state in ("done", "damaged"):
                failure = Failure(error=status.problem, bad_data=True) if status.problem is not None else None
                yield Ended(run_id=run_id, config=left.pop(run_id), failure=failure)
            elif status.state != "running":
                ready.append(Job(run_id, config.to_json(), folder, datasets, device, file, own))
        if ready:
            with closing(execute(run_job, ready)) as outcomes:
                for outcome in outcomes:
                    if outcome.value is None or outcome.value.state != "busy":
                        waiting = False
                        yield _ended(outcome, left.pop(outcome.job.run_id), out)
        # Wait also if some were ready: a machine with its own folder may report that a run is busy there.
        if left and waiting:
            if on_wait is not None:
                on_wait(len(left))
            time.sleep(POLL_SECONDS)


def _ended(outcome: Outcome[Job, Result], config: RunConfig, out: Path) -> Ended:
    result, run_id = result_of(outcome), outcome.job.run_id
    return Ended(
        run_id=run_id,
        config=config,
        failure=failure_of(result, RunFolder(out / run_id).keep_error),
        test_accuracy=result.test_accuracy,
        seconds=result.seconds,
        attempts=outcome.attempts,
    )


def result_of(outcome: Outcome[Any, Result]) -> Result:
    """Return the worker's result, or a failure if it has none; raises `DiskFull` if the disk is full."""
    result = outcome.value or Result("failed", error=outcome.error, traceback=outcome.traceback)
    if result.state == "disk full":
        raise DiskFull(
            f"The disk is full ({result.error}), so no further runs were started. Finished runs are kept: free some "
            "space, and run the command again."
        )
    return result


def failure_of(result: Result, save: Callable[[str], Path]) -> Failure | None:
    """Return the failure of a result, if it has one, and save its traceback with `save` where that is possible."""
    if result.error is None:
        return None
    path = None
    if result.traceback is not None:
        with suppress(OSError, RecordError):
            path = save(result.traceback)
    return Failure(error=result.error, traceback=path, bad_data=result.bad_data)


# In a worker ----------------------------------------------------------------------------------------------------------

# Errors that users can correct: reported without a traceback.
EXPECTED = (DataError, RecordError, Diverged, ValueError, OSError)


def run_job(job: Job) -> Result:
    """Start or resume a run and finish it."""
    from tnlpad.runs.run import run

    began = time.perf_counter()
    try:
        if RunFolder(job_folder(job)).in_use:  # checked before reading data
            return Result("busy")
        config = from_json(job.config)
        own, backbone = open_own(job.own) if job.own is not None else (None, None)
        folder = run(
            config,
            Path(job.out),
            own=own,
            root=Path(job.root) if job.root is not None else None,
            weights=Path(job.weights) if job.weights is not None else None,
            backbone=backbone,
            cache=Path(job.own.cache) if job.own is not None else None,
            device=job.device,
            checkpoint_every_seconds=CHECKPOINT_SECONDS,
            # As `tnlpad train` does, so that it finds runs on own data complete.
            scoring_interval=None if own is None else scoring_interval(config.epochs),
        )
        accuracy = folder.summary()["chosen"]["test_accuracy"]  # None for own data without a test part
    except RunInUse:
        return Result("busy")
    except Exception as error:
        # Wrong settings are refused before a run begins, so a ValueError after that is a bug.
        return failed(error, expected=type(error) is not ValueError or not RunFolder(job_folder(job)).begun)
    return Result("done", test_accuracy=accuracy, seconds=time.perf_counter() - began)


def failed(error: Exception, *, expected: bool = True) -> Result:
    """Return the result of an error that is being handled; raises it again unless it is one of `EXPECTED`.

    Args:
        error: The error.
        expected: False to include the traceback.
    """
    if is_disk_full(error):
        return Result("disk full", error=str(error))
    if not isinstance(error, EXPECTED):
        raise error
    return Result(
        "failed",
        error=str(error) or type(error).__name__,
        traceback=None if expected else traceback.format_exc(),
        bad_data=isinstance(error, (DataError, RecordError)),
    )


def job_folder(job: Job) -> Path:
    """Return the folder of the job's run."""
    return Path(job.out) / job.run_id


def moved(job: Job, out: Path) -> Job:
    """Return the job with another folder of runs, for a machine that does not share the driver's."""
    return job._replace(out=str(out))
