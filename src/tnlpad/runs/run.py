"""One run from start to end: prepare, train or resume, and record."""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from tnlpad import __version__
from tnlpad.atomic_files import write_by_rename
from tnlpad.data.own import DataShape, OwnDataset
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.methods import Method
from tnlpad.methods.protocol import chosen_by, finished
from tnlpad.ranks import group
from tnlpad.ranks.launch import TIMEOUT_SECONDS
from tnlpad.records.model_file import ordered
from tnlpad.records.scores import SampleScores, write_scores
from tnlpad.records.store import RecordError, RunFolder, find_hash
from tnlpad.records.summaries import finished_summary
from tnlpad.rng import global_torch_stream, torch_stream
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.config import RunConfig, command, departures
from tnlpad.runs.devices import available_cores
from tnlpad.runs.own_data import prepare_own_data
from tnlpad.runs.prepare import Data, prepare_data, prepare_loader, prepare_method, prepare_sets, prepare_statistics
from tnlpad.runs.saved_samples import check_groups, save_location, save_samples
from tnlpad.training.checkpoint import CheckpointError
from tnlpad.training.engine import EngineName, can_replay
from tnlpad.training.loop import Record, Schedule, Trained, chosen, train
from tnlpad.training.measure import Sets
from tnlpad.training.sample_scores import SampleStatistics


def run(
    config: RunConfig,
    out: Path,
    *,
    own: OwnDataset | None = None,
    root: Path | None = None,
    weights: Path | None = None,
    backbone: AnyBackbone | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    engine: EngineName = "auto",
    checkpoint_every_seconds: float = 0,
    scoring_interval: int | None = None,
    rank_timeout: float = TIMEOUT_SECONDS,
    reporter: Reporter = SILENT,
    on_prepared: Callable[[Method, Data, Sets], None] | None = None,
    on_step: Callable[[int, int, int], None] | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> RunFolder:
    """Start or resume a run and return its folder when it is finished.

    A finished run is not changed, except for the paths of user data that were moved. Started on several ranks, by
    torchrun or Ray Train, they train the run together, and rank 0 writes its folder.

    Args:
        config: The run.
        out: Folder of all runs; see `run_folder`.
        own: User data, which must be those that the run was configured for.
        root: Folder of datasets.
        weights: File of pretrained weights, if it is not in the folder of datasets.
        backbone: Pretrained network of a run on its features, or that the run trains.
        cache: Folder of cached features; None computes them again.
        device: Device to train on.
        scoring_interval: Epochs between evaluations of every sample for its scores; None writes no scores. It does not
            change the run's numbers.
        rank_timeout: Seconds without an answer after which another rank is taken for lost.
        reporter: Shows the progress of decoding images.
        on_prepared: Called before training with the method, the data and the sets to measure on.
        engine, checkpoint_every_seconds, on_step, on_epoch: See `tnlpad.training.loop.train`.
    """
    _check_data(config, own)
    with group.joined(torch.device(device), rank_timeout) as rank_device:
        group.require_same((config.hash, __version__, torch.__version__), "configuration or version")
        folder = RunFolder(group.on_first(lambda: run_folder(config, out, own).path))
        if group.from_first(folder.finished):
            group.on_first(partial(_finished, folder, config, own, backbone))
            return folder
        began = time.time()
        # Prepare before writing anything, so that a run that cannot start leaves no files.
        if own is None:
            data = prepare_data(config, root, rank_device)
        else:
            data = prepare_own_data(config, own, rank_device, backbone=backbone, cache=cache, reporter=reporter)
        with _divided(config, data):
            # Out of fold, every network takes its own part of a batch, which cannot be captured.
            engine = "eager" if data.fold is not None and engine == "auto" else engine
            loader, streams = prepare_loader(config, data, rank_device)
            can_replay(engine, loader, rank_device)
            sets = prepare_sets(config, data, rank_device)
            if config.finetune and isinstance(backbone, Backbone) and backbone.ours is not None:
                weights = backbone.ours.weights
            method = prepare_method(config, data, streams["method"], rank_device, root, weights)
            statistics = None
            if scoring_interval is not None:
                statistics = prepare_statistics(config, data, rank_device, scoring_interval, folder.path)
            if on_prepared is not None:
                on_prepared(method, data, sets)
            with group.held_by_first(folder.lock):
                if group.from_first(folder.finished):  # another process has finished it meanwhile
                    group.on_first(partial(_finished, folder, config, own, backbone))
                    return folder
                group.on_first(partial(_begin, folder, config, own, data, backbone))
                with _deterministic(config.seed, rank_device), compiling(config) as compiled:

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
                            device=rank_device,
                            bf16=config.precision == "bfloat16",
                            compiled=config.compiled,
                            engine=engine,
                            checkpoint_every_seconds=checkpoint_every_seconds,
                            statistics=statistics,
                            on_step=on_step,
                            on_epoch=after_epoch,
                        )
                    except CheckpointError as error:
                        raise RecordError(str(error)) from error
                scores = _scores(config, data, statistics) if statistics is not None and statistics.started else None
                summary = _summary(config, method, trained.history, data, rank_device, time.time() - began)
                group.on_first(partial(_finish, folder, next(iter(method.judged)), trained, scores, summary))
    return folder


def run_folder(config: RunConfig, out: Path, own: OwnDataset | None) -> RunFolder:
    """Return the folder of a run. One on user data is named after them, and found by its hash under any other name."""
    if own is None:
        return RunFolder(out / config.run_id)
    return find_hash(out, config.hash) or RunFolder(out / config.named(own.title))


def _divided(config: RunConfig, data: Data) -> AbstractContextManager[None]:
    """Return a block in which several ranks divide their work. Heads on features are small: every rank trains all."""
    if data.fold is not None:
        return group.alone()
    group.require_same(sha256(data.noisy.given.tobytes()).hexdigest()[:16], "digest of the given labels")
    if group.count() > config.batch_size:
        raise ValueError(
            f"batch_size={config.batch_size} on {group.count()} ranks: each rank needs at least one sample of a batch. "
            f"Start at most {config.batch_size} ranks."
        )
    return nullcontext()


def _begin(
    folder: RunFolder, config: RunConfig, own: OwnDataset | None, data: Data, backbone: AnyBackbone | None
) -> None:
    if own is not None and config.folds is not None:
        check_groups(folder.path, own)
    folder.begin(config.to_json())
    if own is not None:
        save_samples(folder.path, own, data, backbone)


def _finish(
    folder: RunFolder, shipped: str, trained: Trained, scores: SampleScores | None, summary: dict[str, Any]
) -> None:
    _write_model(folder, shipped, trained)
    if scores is not None:
        write_scores(folder.path, scores)
    folder.finish({"run_id": folder.path.name, **summary})
    folder.checkpoint_file.unlink(missing_ok=True)  # several times the size of the model


def _check_data(config: RunConfig, own: OwnDataset | None) -> None:
    """Raise DataError if these are not the data that the run was configured for."""
    if config.data is None and own is None:
        return
    if config.data is None or own is None:
        needed = "your own data: give their path" if own is None else f"{config.dataset}: leave out your own data"
        raise DataError(f"This is a run on {needed}.")
    if config.data != own.shape:
        raise DataError(
            f"{own.source} has changed since this run was started: {_difference(config.data, own.shape)}. "
            "Restore the data to resume the run, or start a new one."
        )


def _difference(before: DataShape, now: DataShape) -> str:
    names = ("samples", "validation", "test", "classes", "channels", "height", "width")
    changes = [
        f"{name} {getattr(before, name):,} then, {getattr(now, name):,} now"
        for name in names
        if getattr(before, name) != getattr(now, name)
    ]
    return "; ".join(changes) or "an id, a label or the content of a sample differs"


def _finished(folder: RunFolder, config: RunConfig, own: OwnDataset | None, backbone: AnyBackbone | None) -> None:
    """Check that the files of a finished run are complete and as they were written, and belong to it."""
    with suppress(OSError):  # a disk that is read only refuses to remove even what is not there
        folder.checkpoint_file.unlink()  # left if the process was killed after writing the summary
    folder.check_config(config.to_json())
    finished_summary(folder)
    if own is not None and config.folds is not None:
        check_groups(folder.path, own)
    if own is not None:
        save_location(folder.path, own, backbone)
    folder.require_intact()


@contextmanager
def _deterministic(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block the global generators belong to the run, and cuDNN is deterministic and computes in float32.

    By default cuDNN rounds the inputs of float32 convolutions to TF32.
    """
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32
    devices = [device] if device.type == "cuda" else []
    stream = f"global-{group.rank()}" if group.rank() else "global"  # ranks drop out different units
    with torch.random.fork_rng(devices=devices), global_torch_stream(seed, stream):
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(torch_stream(seed, stream).initial_seed())
        torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, False
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = before


def _schedule(config: RunConfig) -> Schedule:
    return Schedule(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        milestones=config.milestones,
        decay=config.decay,
        decay_takes_effect=config.decay_takes_effect,
        patience=config.patience,
    )


# Results --------------------------------------------------------------------------------------------------------------


def _write_model(folder: RunFolder, name: str, trained: Trained) -> None:
    """Write the network of the chosen epoch as a plain state dict."""
    from safetensors.torch import save

    state = {key: value.contiguous().cpu() for key, value in trained.best.items()}
    epoch = chosen(trained.history)["epoch"]
    write_by_rename(folder.model_file, ordered(save(state, {"epoch": str(epoch), "weights": name})))


def _scores(config: RunConfig, data: Data, statistics: SampleStatistics) -> SampleScores:
    result, index = statistics.result(), statistics.samples.index.cpu().numpy()
    held_out = np.isin(index, data.parts.validation)
    return SampleScores(
        columns={
            "index": index,
            "part": np.where(held_out, "validation", "train"),
            "given": data.noisy.given[index],
            **result.numbers,
        },
        probabilities=result.probabilities,
        class_names=data.class_names,
        views=result.views,
        facts={
            "run_id": config.run_id,
            "chosen_epoch": result.chosen_epoch,
            "epochs_until_chosen": result.epochs[0],
            "epochs_to_end": result.epochs[1],
            "every": statistics.every,
            **({} if config.folds is None else {"folds": config.folds, "repeats": config.repeats}),
        },
    )


def _summary(
    config: RunConfig, method: Method, history: list[Record], data: Data, device: torch.device, seconds: float
) -> dict[str, Any]:
    """Return the results, and everything that is needed to repeat the run."""
    best, last = chosen(history), history[-1]
    keys = ("epoch", "validation_accuracy", "test_accuracy", "judged")
    return {
        "config": config.to_json(),
        "settings": departures(config),
        "chosen": {key: best[key] for key in keys},
        "last": {key: last[key] for key in keys},
        "selection": _selection(config, method),
        "epochs_run": len(history),
        "stopped": _stopped(config, method, len(history)),
        "samples": data.sizes,
        "wrong_labels": None if data.correct is None else float((~data.correct).double().mean()),
        "seconds": {"this_process": seconds, "epochs": sum(sum(r["seconds"].values()) for r in history)},
        **_machine(device),
        **({"ranks": group.count()} if group.count() > 1 else {}),
        "versions": {
            "tnlpad": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy")},
        },
        "command": command(config),
    }


def _machine(device: torch.device) -> dict[str, Any]:
    """Return the name of the GPU, and how many of its processors this process may use; or the CPU's architecture."""
    if device.type != "cuda":
        return {"machine": platform.machine()}
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return {"machine": torch.cuda.get_device_name(device), "processors": processors}


def _selection(config: RunConfig, method: Method) -> str:
    rule = f"first epoch of the highest {config.validation} validation accuracy"
    judges = tuple(chosen_by(method))
    return rule if judges == tuple(method.reported) else f"{rule} of {' and '.join(judges)}"


def _stopped(config: RunConfig, method: Method, epochs: int) -> str:
    if epochs == config.epochs:
        return "at the last epoch"
    return "by the method" if finished(method) else "by patience"


# Compilation ----------------------------------------------------------------------------------------------------------

# Fields that determine the kernels of a step: runs that agree in them can share compiled code.
COMPILED_BY = (
    *("dataset", "subset", "method", "network", "batch_size", "precision", "compiled", "stem_padding"),
    "channels_last",
    *("validation", "validation_fraction", "resize", "crop", "crop_padding", "flip", "cutout"),
)
_compiled_for: tuple[Any, ...] = ()


@contextmanager
def compiling(config: RunConfig) -> Iterator[Callable[[], None]]:
    """Compile each kind of run once, within the block; call the yielded function when everything is compiled.

    A worker's next run of the same kind reuses its compiled code. Of processes that start together one compiles, on all
    cores, while the others wait for it. They then find its kernels in torch's cache on disk.
    """
    global _compiled_for
    kind = tuple(getattr(config, name) for name in COMPILED_BY)
    if kind == _compiled_for or not config.compiled or group.count() > 1:  # several ranks compile nothing
        yield lambda: None
        return
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # torch silently stops compiling a function after a handful of shapes
    _compiled_for = kind
    lock = _compile_lock(kind)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with lock:  # wait until the other process has compiled, or died
            pass
        yield lambda: None
        return
    from torch._inductor import config as inductor

    try:
        with inductor.patch(compile_threads=available_cores()):
            yield lock.release
    finally:
        lock.release()


def _compile_lock(kind: tuple[Any, ...]) -> FileLock:
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    user = os.getuid() if hasattr(os, "getuid") else ""  # users share the folder, but cannot open each other's locks
    name = sha256(repr((torch.__version__, kind)).encode()).hexdigest()[:16]
    return FileLock(folder / f"tnlpad-compiling-{user}-{name}.lock")
