"""Puts a run together: data, noise, split, network, method, loop, records.

Every random decision has a stream of its own, named in `STREAMS`, so that methods with the same seed see the same wrong
labels, the same split and the same batches.
"""

import inspect
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tnlpad.data import CIFAR100_SUPERCLASS, human_labels, load
from tnlpad.data.augment import Augmentation, Augmenter
from tnlpad.data.catalogue import DatasetInfo, find
from tnlpad.data.loader import DeviceLoader
from tnlpad.data.split import legacy_split, split
from tnlpad.experiments.config import RunConfig, check_noise_file
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.networks import NETWORKS, build
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.records.store import RecordError, RunFolder, write_by_rename
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.training.checkpoint import CheckpointError
from tnlpad.training.evaluate import evaluation_mode
from tnlpad.training.loop import Record, Schedule, Trained, chosen, train
from tnlpad.training.measure import Samples, Sets
from tnlpad.types import NoisyLabels, RawDataset, Split

STREAMS = ("noise", "split", "order", "augment", "network-0", "network-1", "method", "memorisation", "global")
MEMORISATION_SAMPLES = 5000  # wrong labels to measure on; a share of 5,000 is known to within a percent


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A dataset with its noise and split, on the device."""

    info: DatasetInfo
    train_images: Tensor
    test_images: Tensor
    test_labels: Tensor
    noisy: NoisyLabels
    parts: Split
    given: Tensor
    correct: Tensor


def prepare_data(config: RunConfig, root: Path | None, device: torch.device) -> Data:
    """Read, corrupt, split; functions of the seed alone."""
    info = find(config.dataset)
    source = info.images_of or info.name
    train_set, test_set = (load(source, root, part) for part in ("train", "test"))
    if not isinstance(train_set, RawDataset) or not isinstance(test_set, RawDataset):
        raise ValueError(f"{source} does not fit into memory, and this run needs it to.")
    check_noise_file(config)
    spec = parse_noise(config.noise)
    human = human_labels(info.name, spec.human or "", root) if spec.kind == "human" else None
    noisy = make_noisy_labels(
        spec,
        dataset=source,
        labels=train_set.labels,
        num_classes=len(train_set.class_names),
        seed=config.seed,
        images=train_set.images,
        coarse=CIFAR100_SUPERCLASS if source == "cifar100" else None,
        human=human,
        protocol=config.protocol,
        inputs=config.instance_inputs,
        legacy=config.legacy_streams,
    )
    size, fraction = len(train_set.labels), config.validation_fraction
    parts = (
        legacy_split(size, fraction, config.seed)
        if config.legacy_streams
        else split(size, fraction, numpy_stream(config.seed, "split"))
    )
    return Data(
        info=info,
        train_images=torch.from_numpy(train_set.images).to(device),
        test_images=torch.from_numpy(test_set.images).to(device),
        test_labels=torch.from_numpy(test_set.labels).to(device),
        noisy=noisy,
        parts=parts,
        given=torch.from_numpy(noisy.given).to(device),
        correct=torch.from_numpy(noisy.given == noisy.clean).to(device),
    )


def prepare_loader(
    config: RunConfig, data: Data, device: torch.device
) -> tuple[DeviceLoader, dict[str, torch.Generator]]:
    """Training batches, and the streams that they and the method are drawn from."""
    streams = {name: torch_stream(config.seed, name) for name in ("order", "augment", "method")}
    loader = DeviceLoader(
        data.train_images,
        data.given,
        batch_size=config.batch_size,
        mean=data.info.normalisation.mean,
        std=data.info.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        augmentation=Augmentation(crop_padding=config.crop_padding, flip=config.flip, cutout=config.cutout),
        memory_format=_memory_format(device),
        order=streams["order"],
        augment=streams["augment"],
    )
    return loader, streams


def prepare_sets(config: RunConfig, data: Data, loader: DeviceLoader, device: torch.device) -> Sets:
    """What to measure on: noisy validation, clean test, and the wrong labels among those trained on."""
    validation = torch.from_numpy(data.parts.validation).to(device)
    train_images = loader.augmenter.plain
    normalisation = data.info.normalisation
    test_images = Augmenter(data.test_images, Augmentation(), normalisation.mean, normalisation.std).plain
    wrong = data.parts.train[data.noisy.given[data.parts.train] != data.noisy.clean[data.parts.train]]
    if len(wrong) > MEMORISATION_SAMPLES:
        wrong = np.sort(numpy_stream(config.seed, "memorisation").choice(wrong, MEMORISATION_SAMPLES, replace=False))
    wrong_index = torch.from_numpy(wrong).to(device)
    return Sets(
        validation=Samples(images_at=train_images, index=validation, labels=data.given[validation]),
        test=Samples(
            images_at=test_images,
            index=torch.arange(len(data.test_labels), device=device),
            labels=data.test_labels,
        ),
        wrong=Samples(images_at=train_images, index=wrong_index, labels=data.given[wrong_index])
        if len(wrong)
        else None,
        correct=data.correct,
    )


def prepare_method(config: RunConfig, data: Data, generator: torch.Generator, device: torch.device) -> Method:
    """The method with its networks and optimizers; the generator is its own stream."""
    channels, height, width = data.train_images.shape[1:]
    options = {"num_classes": len(data.info.class_names), "in_channels": channels}
    if config.stem_padding is not None:
        options["stem_padding"] = config.stem_padding
    if "image_size" in inspect.signature(NETWORKS[config.network]).parameters:
        options["image_size"] = height

    def network(number: int) -> nn.Module:
        with global_torch_stream(config.seed, f"network-{number}"):
            built = build(config.network, **options).to(device)
        for parameter in built.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=_memory_format(device))
        _require_fit(config.network, built, torch.zeros(1, channels, height, width, device=device))
        return built

    # A graph reads the learning rate from device memory.
    rate: Any = torch.tensor(config.learning_rate, device=device) if device.type == "cuda" else config.learning_rate
    setup = Setup(
        network=network,
        sgd={"lr": rate, "momentum": config.momentum, "weight_decay": config.weight_decay, "fused": True},
        labels=data.given,
        num_classes=options["num_classes"],
        epochs=config.epochs,
        noise_rate=config.noise_rate,
        generator=generator,
    )
    entry = METHODS[config.method]
    return entry.build(entry.config(**config.options), setup)


def run(
    config: RunConfig,
    out: Path,
    *,
    root: Path | None = None,
    device: str = "cpu",
    command: str = "",
    checkpoint_every_seconds: float = 0,
    on_step: Callable[[int, int, int], None] | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> RunFolder:
    """Carry a run to its end, from wherever it stands, and return its folder; a finished one is left as it is.

    Args:
        config: What to run.
        out: The folder of all runs.
        root: Where datasets lie.
        device: Where to train.
        command: What was typed, to be noted in the summary.
        checkpoint_every_seconds, on_step, on_epoch: See `tnlpad.training.loop.train`.
    """
    folder = RunFolder(out / config.run_id)
    if folder.finished:
        return checked(folder, config)
    began, place = time.time(), torch.device(device)
    # Before anything is written: what cannot start leaves no trace.
    data = prepare_data(config, root, place)
    loader, streams = prepare_loader(config, data, place)
    sets = prepare_sets(config, data, loader, place)
    method = prepare_method(config, data, streams["method"], place)
    with folder.lock():
        if folder.summary_file.exists():  # finished by another process in the meantime
            return checked(folder, config)
        folder.begin(config.to_json())
        with _repeatable(config.seed, place):
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
                    checkpoint_every_seconds=checkpoint_every_seconds,
                    on_step=on_step,
                    on_epoch=on_epoch,
                )
            except CheckpointError as error:
                raise RecordError(str(error)) from error
        _ship(folder, next(iter(method.judged)), trained)
        folder.finish(summarise(config, trained.history, data, place, command, time.time() - began))
    return folder


def checked(folder: RunFolder, config: RunConfig) -> RunFolder:
    """A finished run's folder, if its parts can be read and belong together."""
    folder.check_config(config.to_json())
    epochs, run = len(folder.epochs()), folder.summary().get("epochs_run")
    if epochs != run or not folder.model_file.exists():
        problem = f"{epochs} epochs of {run}" if epochs != run else f"no {folder.model_file.name}"
        raise RecordError(
            f"{folder.path} is damaged: its summary says that it is finished, but there are {problem}. Restore it, or "
            "remove the folder to start anew."
        )
    return folder


def summarise(
    config: RunConfig, history: list[Record], data: Data, device: torch.device, command: str, seconds: float
) -> dict[str, Any]:
    """What a table needs of a run, and what is needed to make it again."""
    best, last = chosen(history), history[-1]
    keys = ("epoch", "validation_accuracy", "test_accuracy", "judged")
    return {
        "run_id": config.run_id,
        "config": config.to_json(),
        "chosen": {key: best[key] for key in keys},
        "last": {key: last[key] for key in keys},
        "selection": "first epoch of the highest noisy validation accuracy",
        "epochs_run": len(history),
        "stopped": "by patience" if len(history) < config.epochs else "at the last epoch",
        "samples": {
            "train": len(data.parts.train),
            "validation": len(data.parts.validation),
            "test": len(data.test_labels),
        },
        "wrong_labels": float((~data.correct).double().mean()),
        "seconds": {"this_process": seconds, "epochs": sum(sum(r["seconds"].values()) for r in history)},
        "machine": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "numpy")}},
        "command": command,
    }


@torch.no_grad()
def _require_fit(name: str, network: nn.Module, image: Tensor) -> None:
    """Refuse a network that cannot take these images before a run has begun with it."""
    try:
        with evaluation_mode(network):
            network(image)
    except (ValueError, RuntimeError) as error:
        shape = " × ".join(map(str, image.shape[1:]))
        raise ValueError(f"{name} cannot take images of {shape} ({error}) Choose another network.") from error


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
    """Within the block the global generators are the run's own, and convolutions always add up in the same order."""
    deterministic = torch.backends.cudnn.deterministic
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), global_torch_stream(seed, "global"):
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(torch_stream(seed, "global").initial_seed())
        torch.backends.cudnn.deterministic = True
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic = deterministic


def _memory_format(device: torch.device) -> torch.memory_format:
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


def _ship(folder: RunFolder, name: str, trained: Trained) -> None:
    """Write the chosen epoch's network as an ordinary state dict."""
    from safetensors.torch import save

    state = {key: value.contiguous().cpu() for key, value in trained.best.items()}
    epoch = chosen(trained.history)["epoch"]
    write_by_rename(folder.model_file, save(state, {"epoch": str(epoch), "weights": name}))
