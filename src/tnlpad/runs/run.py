"""Compiled code is made once: by the first of several runs of a kind, for those after it and for those beside it.

A worker's next run takes over what its last one compiled. And of processes that start together one goes ahead, on all
cores, while the others wait: they find its kernels in torch's cache on disk. Without that twenty of them would compile
the same kernels twenty times over.

Carries a run to its end: prepared, trained, shipped and recorded, from wherever it stands.
"""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from tnlpad import __version__
from tnlpad.atomic_files import write_by_rename
from tnlpad.data.own import OwnDataset
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.methods import Method
from tnlpad.methods.protocol import chosen_by, finished
from tnlpad.records.scores import SampleScores, write_scores
from tnlpad.records.store import RecordError, RunFolder, finished_summary
from tnlpad.rng import global_torch_stream, torch_stream
from tnlpad.runs.config import RunConfig, command, departures
from tnlpad.runs.devices import available_cores
from tnlpad.runs.own_data import prepare_own_data, remember, remember_place, require_same
from tnlpad.runs.prepare import Data, prepare_census, prepare_data, prepare_loader, prepare_method, prepare_sets
from tnlpad.training.checkpoint import CheckpointError
from tnlpad.training.engine import EngineName
from tnlpad.training.loop import Record, Schedule, Trained, chosen, train
from tnlpad.training.measure import Sets
from tnlpad.training.sample_scores import Census

# What decides over the kernels of a step: runs that agree in it differ only in their numbers.
COMPILED_BY = (
    *("dataset", "subset", "method", "network", "batch_size", "precision", "compiled", "stem_padding"),
    *("validation", "validation_fraction", "resize", "crop", "crop_padding", "flip", "cutout"),
)
_compiled_for: tuple[Any, ...] = ()


@contextmanager
def compiling(config: RunConfig) -> Iterator[Callable[[], None]]:
    """A block that compiles; call what it is given as soon as everything is compiled, which lets the others begin."""
    global _compiled_for
    kind = tuple(getattr(config, name) for name in COMPILED_BY)
    if kind == _compiled_for or not config.compiled:
        yield lambda: None
        return
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # torch compiles a function for a handful of shapes and then, silently, no more
    _compiled_for = kind
    lock = _lock(kind)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with lock:  # wait for who is ahead, or for its end
            pass
        yield lambda: None
        return
    from torch._inductor import config as inductor

    try:
        with inductor.patch(compile_threads=available_cores()):
            yield lock.release
    finally:
        lock.release()


def _lock(kind: tuple[Any, ...]) -> FileLock:
    """In the folder where torch keeps what it compiled, or beside it."""
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    user = os.getuid() if hasattr(os, "getuid") else ""  # people share the folder, and not its locks
    name = sha256(repr((torch.__version__, kind)).encode()).hexdigest()[:16]
    return FileLock(folder / f"tnlpad-compiling-{user}-{name}.lock")


def run(
    config: RunConfig,
    out: Path,
    *,
    own: OwnDataset | None = None,
    root: Path | None = None,
    weights: Path | None = None,
    device: str = "cpu",
    engine: EngineName = "auto",
    checkpoint_every_seconds: float = 0,
    census_every: int | None = None,
    reporter: Reporter = SILENT,
    on_prepared: Callable[[Method, Data, Sets], None] | None = None,
    on_step: Callable[[int, int, int], None] | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> RunFolder:
    """Carry a run to its end, from wherever it stands, and return its folder; a finished one is left as it is, but
    for where its data lie now.

    Args:
        config: What to run.
        out: The folder of all runs.
        own: The data, for a run on a person's own; they must be those that the run was configured for.
        root: Where datasets lie.
        weights: The file of weights to begin with, if it does not lie beside the datasets.
        device: Where to train.
        census_every: After every so many epochs look at every sample, and leave scores of each in the folder; without
            a number there are none. The run's numbers are the same.
        reporter: Told how far the decoding of own images has come.
        on_prepared: Told what is about to be trained, for those who look at it after some epoch.
        engine, checkpoint_every_seconds, on_step, on_epoch: See `tnlpad.training.loop.train`.
    """
    require_same(config, own)
    folder = RunFolder(out / config.run_id)
    if folder.finished:
        folder.checkpoint_file.unlink(missing_ok=True)  # of a process that was killed after it had written the summary
        return _found(folder, config, own)
    began, place = time.time(), torch.device(device)
    # Before anything is written: what cannot start leaves no trace.
    data = prepare_data(config, root, place) if own is None else prepare_own_data(config, own, place, reporter=reporter)
    loader, streams = prepare_loader(config, data, place)
    sets = prepare_sets(config, data, place)
    method = prepare_method(config, data, streams["method"], place, root, weights)
    census = None if census_every is None else prepare_census(config, data, place, census_every)
    if on_prepared is not None:
        on_prepared(method, data, sets)
    with folder.lock():
        if folder.summary_file.exists():  # finished by another process in the meantime
            return _found(folder, config, own)
        folder.begin(config.to_json())
        if own is not None:
            remember(folder.path, own, data)
        with _repeatable(config.seed, place), compiling(config) as compiled:

            def after_epoch(record: Record) -> None:
                compiled()
                if on_epoch is not None:
                    on_epoch(record)

            try:
                trained = train(
                    method,
                    loader,
                    sets,
                    _schedule(config),
                    folder=folder,
                    streams=streams,
                    device=place,
                    bf16=config.precision == "bfloat16",
                    compiled=config.compiled,
                    engine=engine,
                    checkpoint_every_seconds=checkpoint_every_seconds,
                    census=census,
                    on_step=on_step,
                    on_epoch=after_epoch,
                )
            except CheckpointError as error:
                raise RecordError(str(error)) from error
        _ship(folder, next(iter(method.judged)), trained)
        if census is not None and census.begun:
            write_scores(folder.path, _scores(config, data, census))
        folder.finish(summarise(config, method, trained.history, data, place, time.time() - began))
        folder.checkpoint_file.unlink(missing_ok=True)  # of no more use, and several times the size of the model
    return folder


def _found(folder: RunFolder, config: RunConfig, own: OwnDataset | None) -> RunFolder:
    checked(folder, config)
    if own is not None:
        remember_place(folder.path, own)
    return folder


def checked(folder: RunFolder, config: RunConfig) -> RunFolder:
    """A finished run's folder, if its parts are there and belong together."""
    folder.check_config(config.to_json())
    finished_summary(folder)
    return folder


def _ending(config: RunConfig, method: Method, epochs: int) -> str:
    if epochs == config.epochs:
        return "at the last epoch"
    return "by the method" if finished(method) else "by patience"


def summarise(
    config: RunConfig, method: Method, history: list[Record], data: Data, device: torch.device, seconds: float
) -> dict[str, Any]:
    """What a table needs of a run, and what is needed to make it again."""
    best, last = chosen(history), history[-1]
    keys = ("epoch", "validation_accuracy", "test_accuracy", "judged")
    return {
        "run_id": config.run_id,
        "config": config.to_json(),
        "settings": departures(config),
        "chosen": {key: best[key] for key in keys},
        "last": {key: last[key] for key in keys},
        "selection": _selection(config, method),
        "epochs_run": len(history),
        "stopped": _ending(config, method, len(history)),
        "samples": data.sizes,
        "wrong_labels": None if data.correct is None else float((~data.correct).double().mean()),
        "seconds": {"this_process": seconds, "epochs": sum(sum(r["seconds"].values()) for r in history)},
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "versions": {
            "tnlpad": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy")},
        },
        "command": command(config),
    }


def _scores(config: RunConfig, data: Data, census: Census) -> SampleScores:
    """What the census found, beside what it was about."""
    counted, index = census.counted(), census.samples.index.cpu().numpy()
    held_out = np.isin(index, data.parts.validation)
    return SampleScores(
        columns={
            "index": index,
            "part": np.where(held_out, "validation", "train"),
            "given": data.noisy.given[index],
            **counted.numbers,
        },
        probabilities=counted.probabilities,
        class_names=data.class_names,
        views=counted.views,
        facts={
            "run_id": config.run_id,
            "chosen_epoch": counted.chosen_epoch,
            "epochs_until_chosen": counted.epochs[0],
            "epochs_to_end": counted.epochs[1],
            "every": census.every,
        },
    )


def _selection(config: RunConfig, method: Method) -> str:
    rule = f"first epoch of the highest {config.validation} validation accuracy"
    return (
        rule if tuple(chosen_by(method)) == tuple(method.reported) else f"{rule} of {' and '.join(chosen_by(method))}"
    )


def _schedule(config: RunConfig) -> Schedule:
    return Schedule(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        milestones=config.milestones,
        decay=config.decay,
        decay_takes_effect=config.decay_takes_effect,
        patience=config.patience,
    )


@contextmanager
def _repeatable(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block the global generators are the run's own, and convolutions always add up in the same order.

    And those of float32 are that: left to itself cuDNN rounds their inputs to ten bits.
    """
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), global_torch_stream(seed, "global"):
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(torch_stream(seed, "global").initial_seed())
        torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, False
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = before


def _ship(folder: RunFolder, name: str, trained: Trained) -> None:
    """Write the chosen epoch's network as an ordinary state dict."""
    from safetensors.torch import save

    state = {key: value.contiguous().cpu() for key, value in trained.best.items()}
    epoch = chosen(trained.history)["epoch"]
    write_by_rename(folder.model_file, save(state, {"epoch": str(epoch), "weights": name}))
