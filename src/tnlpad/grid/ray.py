"""A finished run as a parcel: made on one machine, sent to another, and put there as if it had been made there.

For machines that share no folder. The checkpoint stays behind: a finished run needs none.

Where the runs of a grid take place: on the machines of a Ray cluster, several to a GPU if asked.

The same rules as on one machine (`executors`): a job that raises is reported and not tried again, and one whose process
or machine is lost is started again on another, a few times. A machine may be taken for lost too early, so that a run is
at work twice: in a shared folder its lock keeps the two apart, and of two that are sent back the first one stays.

Every machine needs this package in the driver's version, and the datasets at the same place.
"""

import json
import logging
import os
import pickle
import shutil
import socket
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Generic, NamedTuple

from tnlpad.atomic_files import is_disk_full, write_by_rename
from tnlpad.grid.executors import Attempt, Job, Outcome, Value
from tnlpad.grid.workers import Answer, answer, in_words, use_one_thread
from tnlpad.records.store import RecordError, RunFolder


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """The content of a finished run's files by their names, such as `config.json` or `tensorboard/events`."""

    files: Mapping[str, bytes]


def pack(folder: RunFolder) -> Parcel | None:
    """All that is worth sending of a run; None if it is not finished."""
    if not folder.finished:
        return None
    files = {path.relative_to(folder.path).as_posix(): path for path in folder.path.rglob("*") if path.is_file()}
    return Parcel(files={name: path.read_bytes() for name, path in files.items() if _is_sent(folder, name)})


def unpack(parcel: Parcel, folder: RunFolder) -> None:
    """Put a run into its folder, unless a finished one is there.

    A run may be made twice, if a machine is given up too early, and the first to arrive stays. What an unfinished run
    left here is replaced. The summary comes last, as always, so that the run is there whole or is not finished.
    """
    _require_whole(parcel, folder)
    with folder.lock():
        if folder.finished:
            return
        folder.begin(json.loads(parcel.files[folder.config_file.name]))
        # First: with other epochs beside it, a checkpoint would continue a run that never was.
        folder.checkpoint_file.unlink(missing_ok=True)
        last = folder.summary_file.name
        for name, content in parcel.files.items():
            if name != last:
                (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
                write_by_rename(folder.path / name, content)
        folder.error_file.unlink(missing_ok=True)
        write_by_rename(folder.summary_file, parcel.files[last])


def _is_sent(folder: RunFolder, name: str) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
    return name not in (folder.checkpoint_file.name, folder.lock_file.name) and not hidden


def _require_whole(parcel: Parcel, folder: RunFolder) -> None:
    """Refuse what is no finished run, is another one, or would write elsewhere than into the run's folder."""
    for name in parcel.files:
        path = PurePosixPath(name)
        if not path.name or path.is_absolute() or str(path) != name or not _is_sent(folder, name):
            raise RecordError(
                f"A run was sent with a file called {name!r}, which is no name for a record. It is not used."
            )
    for file in (folder.config_file, folder.epochs_file, folder.model_file, folder.summary_file):
        if file.name not in parcel.files:
            raise RecordError(f"A run was sent without its {file.name}: {folder.path} is not written. Run it again.")
    run_id = json.loads(parcel.files[folder.summary_file.name]).get("run_id")
    if run_id != folder.path.name:
        raise RecordError(f"{run_id!r} was sent where {folder.path.name} was expected. It is not used.")


SECONDS_TO_CONNECT = 10


class RayUnavailable(Exception):
    """Ray is not installed, not reachable, or has no machine for such jobs; the message names the way out."""


@dataclass(frozen=True, kw_only=True)
class SendBack(Generic[Job]):
    """For machines that share no folder with the driver: runs are made in TMPDIR and sent to the driver at their end.

    A run that was interrupted goes on if the same machine gets it again, and starts from its beginning elsewhere.

    Args:
        folder: Where a job's run folder lies.
        moved: The same job, its run folder below another folder. Both functions must be picklable.
    """

    folder: Callable[[Job], Path]
    moved: Callable[[Job, Path], Job]


def execute_on_ray(
    function: Callable[[Job], Value],
    jobs: Iterable[Job],
    *,
    address: str | None,
    gpus_per_run: float,
    cpus_per_run: float = 1,
    retries: int = 2,
    send_back: SendBack[Job] | None = None,
) -> Generator[Outcome[Job, Value], None, None]:
    """Carry out every job and yield how it ended, in the order in which they end; close the generator to stop.

    Ray itself tells of lost machines on stdout, from a thread of its own: where stdout is for results, redirect it
    meanwhile.

    Args:
        function: Called with a job, with one torch thread. Both must be picklable, and found by import everywhere.
        jobs: Plain data, in the order in which to start them.
        address: Of a cluster, as `ray.init` takes it. None is the one that this machine belongs to, or if there is
            none, one made of this machine for as long as it takes.
        gpus_per_run: What a job takes of a GPU; 0.25 lets four share one.
        cpus_per_run: Likewise of cores.
        retries: How often to start a job again whose process or machine was lost.
        send_back: None if the function writes where the driver can read it, such as in a shared folder.
    """
    for name, value in (("gpus_per_run", gpus_per_run), ("cpus_per_run", cpus_per_run), ("retries", retries)):
        if value < 0:
            raise ValueError(f"{name}={value}: must be at least 0.")
    ray = _ray()
    needs = {"GPU": gpus_per_run, "CPU": cpus_per_run}
    if send_back is None:
        return _on_ray(ray, function, jobs, address, needs, retries)
    return _received(
        _on_ray(ray, partial(_make_and_pack, function, send_back), jobs, address, needs, retries), send_back
    )


def _on_ray(
    ray: ModuleType,
    function: Callable[[Job], Value],
    jobs: Iterable[Job],
    address: str | None,
    needs: dict[str, float],
    retries: int,
) -> Generator[Outcome[Job, Value], None, None]:
    lost = (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.ObjectLostError,
    )
    running: dict[Any, Attempt[Job]] = {}
    result: Attempt[Job] | Outcome[Job, Value]
    with _connected(ray, address):
        _require_room(ray, needs)
        # Ray would start lost tasks again itself, but does not say how often it did.
        task = ray.remote(num_gpus=needs["GPU"], num_cpus=needs["CPU"], max_retries=0)(_answer)
        try:
            for job in jobs:
                running[task.remote(pickle.dumps((function, job)))] = Attempt(job=job)
            while running:
                [reference], _ = ray.wait(list(running), num_returns=1, fetch_local=False)
                attempt = running.pop(reference)
                try:
                    result = attempt.outcome(ray.get(reference))
                except lost as error:
                    result = attempt.after_death(f"was lost ({type(error).__name__})", retries)
                except ray.exceptions.RayError as error:  # such as a machine without this package
                    result = attempt.outcome(Answer(error=in_words(error)))
                if isinstance(result, Outcome):
                    yield result
                else:
                    running[task.remote(pickle.dumps((function, result.job)))] = result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _answer(task: bytes) -> Answer:
    use_one_thread()
    return answer(task)


# Records sent back ----------------------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    value: Any
    parcel: Parcel | None


def _make_and_pack(function: Callable[[Job], Any], send_back: SendBack[Job], job: Job) -> _Sent:
    """On the machine that carries out the job."""
    there = send_back.moved(job, _scratch())
    value = function(there)
    folder = RunFolder(send_back.folder(there))
    parcel = pack(folder)
    if parcel is not None:
        shutil.rmtree(folder.path)
    return _Sent(value, parcel)


def _scratch() -> Path:
    """Where runs lie that are to be sent: always the same folder, so that one which was interrupted is found again."""
    folder = Path(tempfile.gettempdir()) / f"tnlpad-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user. Set TMPDIR to a folder of your own.")
    return folder


def _received(
    outcomes: Generator[Outcome[Job, _Sent], None, None], send_back: SendBack[Job]
) -> Generator[Outcome[Job, Any], None, None]:
    with closing(outcomes):
        for outcome in outcomes:
            yield _unpacked(outcome, send_back)


def _unpacked(outcome: Outcome[Job, _Sent], send_back: SendBack[Job]) -> Outcome[Job, Any]:
    """In the driver: what cannot be written is this job's failure and no other's, unless there is no space at all."""
    if outcome.value is None:
        return outcome
    value, parcel = outcome.value
    try:
        if parcel is not None:
            unpack(parcel, RunFolder(send_back.folder(outcome.job)))
    except Exception as error:
        if is_disk_full(error):
            raise
        return replace(outcome, value=None, error=in_words(error), traceback=traceback.format_exc())
    return replace(outcome, value=value)


# The cluster ----------------------------------------------------------------------------------------------------------


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import, which reads it
    try:
        import ray
    except ImportError as error:
        raise RayUnavailable("Ray is not installed. Install it: pip install 'tnlpad[ray]'") from error
    module: ModuleType = ray
    return module


@contextmanager
def _connected(ray: ModuleType, address: str | None) -> Iterator[None]:
    """A connection that is there already is used and left."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    try:
        _require_answer(address)
        # What jobs print stays in Ray's logs: stdout is for results.
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise RayUnavailable(
            f"No Ray cluster at {address or 'this machine'} ({error}). Check the address, or start one there: "
            "ray start --head"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str | None) -> None:
    """Ray itself would try for many minutes where nobody listens."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()


def _require_room(ray: ModuleType, needs: dict[str, float]) -> None:
    """Refuse jobs that no machine could ever take: Ray would wait in silence."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(machine.get(name, 0) >= need for name, need in needs.items()) for machine in machines):
        there = "; ".join(f"{machine.get('GPU', 0):g} GPUs and {machine.get('CPU', 0):g} CPUs" for machine in machines)
        raise RayUnavailable(
            f"A run is to have {needs['GPU']:g} GPUs and {needs['CPU']:g} CPUs, but no machine of the cluster has as "
            f"much ({there}). Ask for less."
        )
