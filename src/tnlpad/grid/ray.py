"""Run jobs on the machines of a Ray cluster, several to a GPU if requested.

As on one machine (`executors`), a job that raises is reported and not retried, and a job whose process or machine is
lost is retried on another. A machine may be considered lost too early, so that a run takes place twice: in a shared
folder its lock prevents that, and of two finished runs that are sent back the first is kept.

Every machine needs this package in the driver's version, and the datasets in the same folder. A script that is run in
place of `tnlpad`, with methods or networks of its own, is sent along.
"""

import os
import pickle
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Generic, NamedTuple

from tnlpad.atomic_files import is_disk_full, write_by_rename
from tnlpad.grid.cluster import connected, import_ray, require_room
from tnlpad.grid.executors import Attempt, Job, Outcome, Value
from tnlpad.grid.workers import Response, describe, run_task, use_one_thread
from tnlpad.json_text import parse_json
from tnlpad.records.store import RecordError, RunFolder

SCRIPT_MODULE = "__mp_main__"  # multiprocessing's name for the script of its parent
Script = tuple[str, str]  # path and source


@dataclass(frozen=True, kw_only=True)
class SendBack(Generic[Job]):
    """For machines that share no folder with the driver: runs are made in TMPDIR and sent to the driver when finished.

    An interrupted run resumes if the same machine gets it again, and starts over on another one.

    Args:
        folder: Returns the run folder of a job.
        moved: Returns the job with another folder of runs. Both functions must be picklable.
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
    """Run all jobs and yield their outcomes as they finish; close the generator to stop.

    Ray reports lost machines on stdout, from its own thread. Redirect stdout if it is for results.

    Args:
        function: Called with a job, with one torch thread. Both must be picklable, and importable on all machines.
        jobs: Plain data, in the order in which to start them.
        address: Address of a cluster, as for `ray.init`. None is the cluster of this machine, or if there is none, a
            temporary one of this machine alone.
        gpus_per_run: Share of a GPU per job; with 0.25 four jobs share one.
        cpus_per_run: Number of cores per job.
        retries: How often to retry a job whose process or machine was lost.
        send_back: None if the driver can read what the function writes, such as in a shared folder.
    """
    for name, value in (("gpus_per_run", gpus_per_run), ("cpus_per_run", cpus_per_run), ("retries", retries)):
        if value < 0:
            raise ValueError(f"{name}={value}: must be at least 0.")
    ray = import_ray()
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
    with connected(ray, address):
        require_room(ray, needs)
        # Ray would retry lost tasks itself, but does not report how often.
        task = ray.remote(num_gpus=needs["GPU"], num_cpus=needs["CPU"], max_retries=0)(_run_task)
        script = main_script()
        try:
            for job in jobs:
                running[task.remote(pickle.dumps((function, job)), script)] = Attempt(job=job)
            while running:
                [reference], _ = ray.wait(list(running), num_returns=1, fetch_local=False)
                attempt = running.pop(reference)
                try:
                    result = attempt.outcome(ray.get(reference))
                except lost as error:
                    result = attempt.after_death(f"was lost ({type(error).__name__})", retries)
                except ray.exceptions.RayError as error:  # such as a machine without this package
                    result = attempt.outcome(Response(error=describe(error)))
                if isinstance(result, Outcome):
                    yield result
                else:
                    running[task.remote(pickle.dumps((function, result.job)), script)] = result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _run_task(task: bytes, script: Script | None) -> Response:
    use_one_thread()
    try:
        load_script(script)
    except (Exception, SystemExit) as error:
        return Response(error=f"{script[0] if script else ''}: {describe(error)}", traceback=traceback.format_exc())
    return run_task(task)


def main_script() -> Script | None:
    """Return the Python file that was started as a script; None for an installed command or a module."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or main.__spec__ is not None or Path(file).suffix != ".py":
        return None
    return file, Path(file).read_text()


def load_script(script: Script | None) -> None:
    """Run a script once in this process, as multiprocessing does in its workers: not as `__main__`."""
    if script is None or getattr(sys.modules.get(SCRIPT_MODULE), "source", None) == script[1]:
        return
    file, source = script
    module = ModuleType(SCRIPT_MODULE)
    module.__dict__.update(__file__=file, source=source)
    sys.modules[SCRIPT_MODULE] = module
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[SCRIPT_MODULE]
        raise


# Runs sent to the driver ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PackedRun:
    """The files of a finished run by their names, such as `config.json` or `tensorboard/events`."""

    files: Mapping[str, bytes]


def pack(folder: RunFolder) -> PackedRun | None:
    """Read a run's files, except for its checkpoint; None if the run is not finished."""
    if not folder.finished:
        return None
    files = {path.relative_to(folder.path).as_posix(): path for path in folder.path.rglob("*") if path.is_file()}
    return PackedRun(files={name: path.read_bytes() for name, path in files.items() if _is_sent(folder, name)})


def unpack(packed: PackedRun, folder: RunFolder) -> None:
    """Write a run into its folder, unless a finished run is there; files of an unfinished one are replaced.

    The summary is written last, so that the run is either complete or not finished.
    """
    _check_packed(packed, folder)
    with folder.lock():
        if folder.finished:
            return
        folder.begin(parse_json(packed.files[folder.config_file.name]))
        # Remove the checkpoint first: it does not belong to the epochs that are about to be written.
        folder.checkpoint_file.unlink(missing_ok=True)
        last = folder.summary_file.name
        for name, content in packed.files.items():
            if name != last:
                (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
                write_by_rename(folder.path / name, content)
        folder.error_file.unlink(missing_ok=True)
        write_by_rename(folder.summary_file, packed.files[last])


def _is_sent(folder: RunFolder, name: str) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
    return name not in (folder.checkpoint_file.name, folder.lock_file.name) and not hidden


def _check_packed(packed: PackedRun, folder: RunFolder) -> None:
    """Raise RecordError if this is not a finished run, another one, or has files outside of the run's folder."""
    for name in packed.files:
        path = PurePosixPath(name)
        if not path.name or path.is_absolute() or str(path) != name or not _is_sent(folder, name):
            raise RecordError(
                f"{folder.path.name} was sent with a file {name!r}, which is not a valid name. It is ignored."
            )
    for file in (folder.config_file, folder.epochs_file, folder.model_file, folder.summary_file):
        if file.name not in packed.files:
            raise RecordError(f"{folder.path.name} was sent without its {file.name} and is ignored. Run it again.")
    run_id = parse_json(packed.files[folder.summary_file.name]).get("run_id")
    if run_id != folder.path.name:
        raise RecordError(f"{run_id!r} was sent where {folder.path.name} was expected. It is ignored.")


class _Sent(NamedTuple):
    value: Any
    packed: PackedRun | None


def _make_and_pack(function: Callable[[Job], Any], send_back: SendBack[Job], job: Job) -> _Sent:
    """Run a job in a temporary folder, on a machine of the cluster, and pack its run."""
    moved = send_back.moved(job, _temporary_folder())
    value = function(moved)
    folder = RunFolder(send_back.folder(moved))
    packed = pack(folder)
    if packed is not None:
        shutil.rmtree(folder.path)
    return _Sent(value, packed)


def _temporary_folder() -> Path:
    """Return the folder for runs that are to be sent: always the same, so that interrupted runs can resume."""
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
    """Write the run in the driver; an error fails only this job, unless the disk is full."""
    if outcome.value is None:
        return outcome
    value, packed = outcome.value
    try:
        if packed is not None:
            unpack(packed, RunFolder(send_back.folder(outcome.job)))
    except Exception as error:
        if is_disk_full(error):
            raise
        return replace(outcome, value=None, error=describe(error), traceback=traceback.format_exc())
    return replace(outcome, value=value)
