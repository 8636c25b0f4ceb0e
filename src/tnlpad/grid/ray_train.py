"""Train one run on several workers of a Ray cluster, through Ray Train.

Every worker is a rank: Ray Train starts the workers and connects them (gloo, or NCCL on GPUs), and each calls
`runs.run.run`. Rank 0 writes the run folder, which the driver sees as well.

If a worker or its machine is lost, all workers are started again and continue from the last checkpoint of the run
folder. Ray's own retries (`FailureConfig`) are not used: they would also repeat errors that a user has to correct, and
they count all failures of a long training instead of those without a new epoch in between.

Every machine needs this package in the driver's version, and the driver's current folder, data and run folder at the
same paths.
"""

import logging
import os
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tnlpad import __version__
from tnlpad.data.own import OwnDataset
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.grid.cluster import RayUnavailable, connected, import_ray, require_room
from tnlpad.grid.own_data import OwnData, open_own, reopening
from tnlpad.grid.ray import Script, load_script, main_script
from tnlpad.ranks.group import RankLost, portable
from tnlpad.ranks.launch import TIMEOUT_SECONDS, launched_rank
from tnlpad.records.store import RunFolder, RunInUse
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.config import RunConfig
from tnlpad.runs.run import run, run_folder
from tnlpad.training.engine import EngineName

POLL_SECONDS = 0.2
SECONDS_BETWEEN_STEPS = 0.5  # of which the driver is told
RETRIES = 2


class Listener(NamedTuple):
    """Receives the progress of rank 0 in the driver, from another thread."""

    reporter: Reporter
    on_prepared: Callable[[], None] | None
    on_step: Callable[[int, int, int], None] | None
    on_epoch: Callable[[Mapping[str, Any]], None] | None


class RankFailed(Exception):
    """An error of a worker that another attempt would not avoid, with its machine and its traceback."""

    def __init__(self, machine: str, error: Exception, trace: str) -> None:
        super().__init__(machine, error, trace)
        self.machine, self.error, self.trace = machine, error, trace


def train_on_ray(
    config: RunConfig,
    out: Path,
    *,
    own: OwnDataset | None = None,
    root: Path | None = None,
    weights: Path | None = None,
    backbone: AnyBackbone | None = None,
    cache: Path,
    device: str = "cpu",
    engine: EngineName = "auto",
    checkpoint_every_seconds: float = 0,
    scoring_interval: int | None = None,
    rank_timeout: float = TIMEOUT_SECONDS,
    reporter: Reporter = SILENT,
    on_prepared: Callable[[], None] | None = None,
    on_step: Callable[[int, int, int], None] | None = None,
    on_epoch: Callable[[Mapping[str, Any]], None] | None = None,
    ranks: int,
    cpus_per_rank: int = 1,
    address: str | None = None,
) -> RunFolder:
    """Start or resume a run on a Ray cluster and return its folder when it is finished.

    Errors of the workers are raised as they were there. Ctrl-C stops the workers. Ray prints messages on stdout, from
    its own thread: redirect it if it is for results.

    Args:
        ranks: Number of workers. On GPUs each has one.
        cpus_per_rank: Number of cores of a worker, and of its threads.
        address: Address of the cluster, as for `grid.ray.execute_on_ray`.
        config, out: The run and the folder of all runs; the others as for `runs.run.run`, which the workers call.
            Callbacks are called in another thread, and `on_prepared` without arguments.
    """
    ray = import_ray()
    needs = {"GPU": 1.0 if device.startswith("cuda") else 0.0, "CPU": float(cpus_per_rank)}
    folder = run_folder(config, out, own)
    arguments = {
        "config": config,
        "out": out,
        "root": root,
        "weights": weights,
        "cache": cache,
        "device": device,
        "engine": engine,
        "checkpoint_every_seconds": checkpoint_every_seconds,
        "scoring_interval": scoring_interval,
        "rank_timeout": rank_timeout,
    }
    with connected(ray, address), _marker(out) as marker:
        require_room(ray, needs, ranks)
        reporter.say(f"Starting {ranks} {'rank' if ranks == 1 else 'ranks'} on the Ray cluster.")
        _say_what_is_free(ray, needs, ranks, reporter)
        task = _Task(
            arguments=arguments,
            own=None if own is None else reopening(own, backbone, config, weights, cache),
            here=os.getcwd(),
            marker=marker,
            script=main_script(),
            threads=cpus_per_rank,
        )
        listener = Listener(reporter, on_prepared, on_step, on_epoch)
        attempt = partial(_attempt, ray, task, listener, ranks, needs, rank_timeout)
        _repeat(attempt, folder, reporter)
    return folder


def _repeat(attempt: Callable[[bool], str | None], folder: RunFolder, reporter: Reporter) -> None:
    """Attempt until the run is finished; raise RankLost after too many attempts without a new epoch."""
    fruitless, epochs = 0, folder.epoch_count
    while (lost := attempt(fruitless > 0)) is not None:
        fruitless = 1 if folder.epoch_count > epochs else fruitless + 1
        epochs = max(epochs, folder.epoch_count)
        if fruitless > RETRIES:
            raise RankLost(
                f"{lost} That is {fruitless} times without a new epoch. Check the memory of the machines and Ray's "
                "logs. Then start the same command again: the run continues from its last checkpoint."
            )
        reporter.say(f"{lost} All ranks start again, from the last checkpoint.")


def _say_what_is_free(ray: ModuleType, needs: Mapping[str, float], ranks: int, reporter: Reporter) -> None:
    free, there = ray.available_resources(), ray.cluster_resources()
    if any(free.get(name, 0) < ranks * need for name, need in needs.items()):
        reporter.say("The cluster is busy. The training starts when it has room.")
    if not needs["GPU"] and there.get("GPU", 0):
        reporter.say(f"The cluster has {there['GPU']:g} GPUs, and this run is on CPUs: --device cuda uses the GPUs.")


@contextmanager
def _marker(out: Path) -> Iterator[Path]:
    """Keep a file in the folder of runs, by which rank 0 sees that it is the driver's folder."""
    with tempfile.NamedTemporaryFile(dir=out.absolute(), prefix=".ray-") as file:
        yield Path(file.name)


# One attempt ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Task:
    """The task of a worker.

    Args:
        arguments: Arguments of `runs.run.run` by their names, as plain data.
        own: What opens the user's own data.
        here: The driver's current folder.
        marker: A file in the driver's folder of runs.
        script: The script that the driver runs in place of `tnlpad`.
        threads: Number of torch threads.
        version: The driver's version of this package.
    """

    arguments: dict[str, Any]
    own: OwnData | None
    here: str
    marker: Path
    script: Script | None
    threads: int
    version: str = __version__


def _attempt(
    ray: ModuleType,
    task: _Task,
    listener: Listener,
    ranks: int,
    needs: Mapping[str, float],
    rank_timeout: float,
    again: bool,
) -> str | None:
    """Train until the run is finished or a worker is lost; return a sentence about that one. Errors are raised."""
    train = _ray_train()
    require_room(ray, needs, ranks)  # a machine may be gone
    mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
    with tempfile.TemporaryDirectory(prefix="tnlpad-ray-") as scratch:  # Ray Train would write to ~/ray_results
        trainer = train.torch.TorchTrainer(
            _rank,
            train_loop_config={"task": task, "mailbox": mailbox},
            torch_config=train.torch.TorchConfig(timeout_s=rank_timeout),
            scaling_config=train.ScalingConfig(
                num_workers=ranks,
                use_gpu=needs["GPU"] > 0,
                resources_per_worker={name: need for name, need in needs.items() if need},
            ),
            run_config=train.RunConfig(name="tnlpad", storage_path=scratch),
        )
        try:
            with _listening(ray, mailbox, listener), _interruptible():
                trainer.fit()
        except train.TrainingFailedError as error:
            return _lost(error, listener.reporter, again=again)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise RayUnavailable(
                f"Ray Train cannot work ({reason}). Every machine of the cluster needs the same packages, such as "
                f"tnlpad {__version__}. Ray's logs say more."
            ) from error
        finally:
            ray.kill(mailbox)
    return None


def _ray_train() -> ModuleType:
    try:
        import ray.train.torch
    except ImportError as error:
        raise RayUnavailable(
            f"Ray Train cannot be used ({error}). Install what it needs: pip install 'tnlpad[ray]'"
        ) from error
    logging.getLogger("ray.train").setLevel(logging.ERROR)
    module: ModuleType = ray.train
    return module


def _lost(error: Exception, reporter: Reporter, *, again: bool) -> str:
    """Return a sentence about the workers that were lost; raise the error of a worker that failed."""
    failures: dict[int, Exception] = dict(sorted(getattr(error, "worker_failures", {}).items()))
    # Older versions of Ray wrap what a worker raised.
    failures = {rank: getattr(failure, "_base_exc", failure) for rank, failure in failures.items()}
    for rank, failure in failures.items():
        if not isinstance(failure, RankFailed):
            continue
        if again and isinstance(failure.error, RunInUse):  # by a process that is about to end
            return str(failure.error)
        if rank > 0:
            reporter.say(f"Rank {rank} failed, on {failure.machine}.")
        failure.error.add_note(failure.trace)
        raise failure.error
    gone = [str(rank) for rank, failure in failures.items() if not isinstance(failure, RankLost)]
    if not failures or not gone:
        return f"A worker was lost ({' '.join(str(error).split())[:500]})."
    return f"Rank {' and '.join(gone)} was lost: its process was killed, or its machine is gone."


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt. Ray Train's handler stops the workers and then exits with code 0."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        raise KeyboardInterrupt from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


# Progress -------------------------------------------------------------------------------------------------------------


class _Mailbox:
    """Messages of rank 0, which the driver fetches."""

    def __init__(self) -> None:
        self.messages: list[tuple[Any, ...]] = []

    def put(self, *message: Any) -> None:
        self.messages.append(message)

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.messages = self.messages, []
        return taken


@contextmanager
def _listening(ray: ModuleType, mailbox: Any, listener: Listener) -> Iterator[None]:
    """Pass the messages of rank 0 on to the listener, within the block."""
    ended = threading.Event()
    receivers: dict[str, Callable[..., None] | None] = {
        "say": listener.reporter.say,
        "progress": listener.reporter.progress,
        "prepared": listener.on_prepared,
        "step": listener.on_step,
        "epoch": listener.on_epoch,
    }

    def listen() -> None:
        last = False
        while not last:
            last = ended.wait(POLL_SECONDS)
            for kind, *values in ray.get(mailbox.take.remote()):
                if (receive := receivers[kind]) is not None:
                    receive(*values)

    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(listen)
        try:
            yield
        finally:
            ended.set()
        listening.result()


class _Sender:
    """Sends the progress of rank 0 to the driver; not every step, since there may be thousands in a second."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox, self.sent = mailbox, 0.0

    def say(self, message: str) -> None:
        self._send("say", message)

    def progress(self, task: str, done: int, total: int) -> None:
        if done >= total or self._due():
            self._send("progress", task, done, total)

    def on_prepared(self, *_: object) -> None:
        self._send("prepared")

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        if self._due():
            self._send("step", epoch, step, steps)

    def on_epoch(self, record: Mapping[str, Any]) -> None:
        self._send("epoch", dict(record))

    def _due(self) -> bool:
        return time.monotonic() - self.sent >= SECONDS_BETWEEN_STEPS

    def _send(self, *message: Any) -> None:
        self.sent = time.monotonic()
        self.mailbox.put.remote(*message)


# In a worker ----------------------------------------------------------------------------------------------------------


def _rank(arguments: dict[str, Any]) -> None:
    """Train as one rank. A lost rank is an error of its own: all ranks start again."""
    try:
        _train(arguments["task"], arguments["mailbox"])
    except RankLost:
        raise
    except (Exception, SystemExit) as error:
        raise RankFailed(socket.gethostname(), portable(error), traceback.format_exc()) from None


def _train(task: _Task, mailbox: Any) -> None:
    import torch

    _check_machine(task)
    load_script(task.script)
    torch.set_num_threads(task.threads)
    own, backbone = (None, None) if task.own is None else open_own(task.own)
    found, wanted = None if backbone is None else backbone.identity, task.arguments["config"].backbone
    if found != wanted:
        raise DataError(
            f"{socket.gethostname()} has the pretrained network {found}, and the run is on {wanted}. Install the same "
            "one on all machines."
        )
    if launched_rank() > 0:
        run(**task.arguments, own=own, backbone=backbone)
        return
    sender = _Sender(mailbox)
    run(
        **task.arguments,
        own=own,
        backbone=backbone,
        reporter=sender,
        on_prepared=sender.on_prepared,
        on_step=sender.on_step,
        on_epoch=sender.on_epoch,
    )


def _check_machine(task: _Task) -> None:
    """Enter the driver's current folder; raise if this machine has other versions or other folders."""
    machine = socket.gethostname()
    if task.version != __version__:
        raise ValueError(
            f"{machine} has tnlpad {__version__}, and the command was started with {task.version}. Install the same "
            "version on all machines."
        )
    try:
        os.chdir(task.here)
    except OSError as error:
        raise DataError(
            f"{machine} has no folder {task.here}. Start the command in a folder that all machines share."
        ) from error
    if launched_rank() == 0 and not task.marker.exists():
        raise DataError(
            f"{machine} does not see the files in {task.marker.parent}. Name a folder that all machines share "
            "with --out."
        )
