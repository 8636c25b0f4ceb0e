"""Estimate how long runs take, from similar finished runs or from recorded times of a training step.

`step_times.json` is written from the benchmarks' records by `python -m benchmarks.step_times`. It has the time of a
step of standard training for each network, image size and batch size of the paper, alone and with several runs on a
GPU, the relative cost of each method, and how many photographs a core decodes in a second.

Runs that share a GPU take longer each. Times are per run while sharing the GPU.
"""

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from tnlpad.data.catalogue import CATALOGUE, find
from tnlpad.records.store import RecordError, find_runs
from tnlpad.runs.config import RunConfig
from tnlpad.runs.devices import available_cores
from tnlpad.runs.prepare import MEMORISATION_SAMPLES

SIMILAR_BY = ("dataset", "network", "method", "batch_size", "batches_per_epoch", "precision", "compiled")
FORWARD_SHARE = 1 / 3  # of a step: the backward pass takes twice as long
Pace = Mapping[tuple[Any, ...], float]
KnownFrom = Literal["like runs", "step times", "standard training"]
STANDARD = "standard"  # whose cost is assumed for a method that was not measured


def paces(out: Path, spent: Iterable[tuple[RunConfig, float | None]], *, read: Container[str]) -> Pace:
    """Return the seconds per epoch of finished runs, by the fields on which they depend.

    Args:
        out: Folder of runs.
        spent: Runs that have been read already, with seconds per epoch; None if they are not finished.
        read: Run ids of those; all others in the folder are read here.
    """
    seen: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for config, seconds in spent:
        if seconds is not None:
            seen[tuple(getattr(config, name) for name in SIMILAR_BY)].append(seconds)
    for folder in find_runs(out):
        if folder.path.name not in read and folder.finished:
            # A damaged run is skipped here, and reported by commands that need it.
            with suppress(RecordError, KeyError, TypeError, AttributeError):
                summary = folder.summary()
                if (seconds := seconds_per_epoch(summary)) is not None:
                    seen[tuple(summary["config"].get(name) for name in SIMILAR_BY)].append(seconds)
    return {key: fmean(seconds) for key, seconds in seen.items()}


def seconds_per_epoch(summary: Mapping[str, Any]) -> float | None:
    """Return the seconds per epoch of a finished run; None if its summary lacks them."""
    try:
        return float(summary["seconds"]["epochs"] / summary["epochs_run"])
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def seconds_left(
    config: RunConfig, epochs_done: int, pace: Pace, device: str, at_once: int = 1
) -> tuple[float, KnownFrom] | tuple[None, None]:
    """Return the seconds that a run still takes (at most, if it has patience) and their source; None if unknown.

    Args:
        config: The run.
        epochs_done: Number of finished epochs.
        pace: Seconds per epoch of finished runs, assumed to have shared a GPU with as many others.
        device: Device of the run.
        at_once: How many runs share a GPU; on a CPU each has its own core.
    """
    epochs, kind = config.epochs - epochs_done, device.partition(":")[0]
    measured = _by_similar_runs(config, pace, kind)
    if measured is not None:
        return epochs * measured, "like runs"
    recorded = _by_step_times(config, kind, at_once if kind == "cuda" else 1)
    known = config.method in step_times().get(kind, {}).get("methods", {})
    return (None, None) if recorded is None else (epochs * recorded, "step times" if known else "standard training")


def _by_similar_runs(config: RunConfig, pace: Pace, device: str) -> float | None:
    """Return the seconds per epoch of similar runs, or of runs that differ only in their method, scaled by its cost."""
    own = tuple(getattr(config, name) for name in SIMILAR_BY)
    if own in pace:
        return pace[own]
    costs, method = step_times().get(device, {}).get("methods", {}), SIMILAR_BY.index("method")
    others = [
        seconds / costs[key[method]]
        for key, seconds in pace.items()
        if key[method] in costs and key[:method] + key[method + 1 :] == own[:method] + own[method + 1 :]
    ]
    return fmean(others) * costs[config.method] if others and config.method in costs else None


def _steps_per_batch(config: RunConfig) -> float:
    """Return the steps that an epoch takes for each batch of the loader, on average over all epochs.

    DivideMix passes over its labelled samples, of which a batch holds one half: with as many of them as there are right
    labels, 2·(1 − noise rate) steps after the warm-up.
    """
    if config.options.get("steps") != "labelled":
        return 1.0
    try:
        rate = float(config.noise.partition(":")[2])
    except ValueError:  # labels of people, or from a file
        rate = 0.0
    warmup = min(int(config.options["warmup_epochs"]), config.epochs)
    return (warmup + (config.epochs - warmup) * 2 * (1 - rate)) / config.epochs


@cache
def step_times() -> dict[str, Any]:
    """Return the recorded times by kind of device."""
    content: dict[str, Any] = json.loads(files("tnlpad.grid").joinpath("step_times.json").read_text())
    return content


def _steps_like(config: RunConfig, device: str) -> list[dict[str, Any]]:
    """Return the recorded steps of this network, image size and batch size; none for user data."""
    info = CATALOGUE.get(config.dataset)
    if info is None:
        return []
    channels, side = (info.image_shape[0], info.image_shape[2]) if info.image_shape else (3, config.crop)
    wanted = {"network": config.network, "channels": channels, "side": side, "batch": config.batch_size}
    return [each for each in step_times()[device]["steps"] if wanted.items() <= each.items()]


def fastest_at_once(config: RunConfig) -> int | None:
    """Return how many parallel runs were fastest on the measured GPU; None if that was not measured."""
    known = _steps_like(config, "cuda")
    if all(step["at_once"] == 1 for step in known):
        return None
    return int(min(known, key=lambda step: float(step["step_ms"]))["at_once"])


def _by_step_times(config: RunConfig, device: str, at_once: int) -> float | None:
    recorded, info = step_times().get(device), find(config.dataset)
    if recorded is None:
        return None
    known = [each for each in _steps_like(config, device) if each["at_once"] <= at_once]
    cost = recorded["methods"].get(config.method, recorded["methods"][STANDARD])
    if not known:
        return None
    step = max(known, key=lambda each: int(each["at_once"]))  # more runs than were measured take at least as long
    size = config.subset or info.train_size
    training = round(size * (1 - config.validation_fraction))
    steps = (config.batches_per_epoch or math.ceil(training / config.batch_size)) * _steps_per_batch(config)
    measured = size - training + info.test_size + min(MEMORISATION_SAMPLES, training)
    measuring = FORWARD_SHARE * measured / config.batch_size
    computing = (steps + measuring) * cost * at_once * step["step_ms"] / 1000
    if not decodes(config):
        return float(computing)
    rate = step_times()["decoding"]["images_per_second_and_core"]
    images = min(steps * config.batch_size, training) + measured
    if device == "cpu":  # where a run has one core for both
        return float(computing + images / rate)
    return float(max(computing, images * at_once / (rate * available_cores())))


def decodes(config: RunConfig) -> bool:
    """Whether a run reads photographs from their files in every epoch."""
    return find(config.dataset).image_shape is None
