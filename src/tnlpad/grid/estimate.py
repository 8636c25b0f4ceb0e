"""How long runs will take: by like runs that are finished, else by recorded times of a training step.

`step_times.json` is written from the benchmarks' records by `python -m benchmarks.step_times`: the time of a step of
plain training for every network, image and batch of the paper, what it takes of a GPU where several runs share one, and
what every method costs relative to it.

Runs that share a GPU take longer each and less of it: seconds here are those that a run takes in their company.
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

from tnlpad.data.catalogue import find
from tnlpad.records.store import RecordError, find_runs
from tnlpad.runs.config import RunConfig
from tnlpad.runs.prepare import MEMORISATION_SAMPLES

LIKE = ("dataset", "network", "method", "batch_size", "batches_per_epoch", "precision", "compiled")
FORWARD_SHARE = 1 / 3  # of a step's work: backward is twice forward
Pace = Mapping[tuple[Any, ...], float]
KnownFrom = Literal["like runs", "step times"]


def paces(out: Path, spent: Iterable[tuple[RunConfig, float | None]], *, read: Container[str]) -> Pace:
    """Seconds per epoch of finished runs, by what they depend on.

    Args:
        out: A folder of runs.
        spent: Of runs that have been read already; None if they are not finished.
        read: The names of those; all others in the folder are read here.
    """
    seen: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for config, seconds in spent:
        if seconds is not None:
            seen[tuple(getattr(config, name) for name in LIKE)].append(seconds)
    for folder in find_runs(out):
        if folder.path.name not in read and folder.finished:
            with suppress(
                RecordError, KeyError, TypeError, AttributeError
            ):  # damaged: reported to whoever asks for that run
                summary = folder.summary()
                if (seconds := seconds_per_epoch(summary)) is not None:
                    seen[tuple(summary["config"].get(name) for name in LIKE)].append(seconds)
    return {key: fmean(seconds) for key, seconds in seen.items()}


def seconds_per_epoch(summary: Mapping[str, Any]) -> float | None:
    """What a finished run took; None if its summary does not say."""
    try:
        return float(summary["seconds"]["epochs"] / summary["epochs_run"])
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def seconds_left(
    config: RunConfig, epochs_done: int, pace: Pace, device: str, at_once: int = 1
) -> tuple[float, KnownFrom] | tuple[None, None]:
    """Of one run, at most if it has patience, and what that is taken from; None where nothing is known.

    Args:
        config: The run.
        epochs_done: How far it has come.
        pace: Of finished runs, which are taken to have shared a GPU with as many others.
        device: Where it will run.
        at_once: How many will share a GPU; on a CPU each has a core of its own.
    """
    epochs, kind = config.epochs - epochs_done, device.partition(":")[0]
    measured = _like(config, pace, kind)
    if measured is not None:
        return epochs * measured, "like runs"
    recorded = _recorded(config, kind, at_once if kind == "cuda" else 1)
    return (None, None) if recorded is None else (epochs * recorded, "step times")


def _like(config: RunConfig, pace: Pace, device: str) -> float | None:
    """Of runs of the same kind; if there are none, of those that differ in their method alone, by what each costs."""
    own = tuple(getattr(config, name) for name in LIKE)
    if own in pace:
        return pace[own]
    costs, method = step_times().get(device, {}).get("methods", {}), LIKE.index("method")
    kin = [
        seconds / costs[key[method]]
        for key, seconds in pace.items()
        if key[method] in costs and key[:method] + key[method + 1 :] == own[:method] + own[method + 1 :]
    ]
    return fmean(kin) * costs[config.method] if kin and config.method in costs else None


@cache
def step_times() -> dict[str, Any]:
    """The recorded times, by kind of device."""
    content: dict[str, Any] = json.loads(files("tnlpad.grid").joinpath("step_times.json").read_text())
    return content


def _recorded(config: RunConfig, device: str, at_once: int) -> float | None:
    recorded, info = step_times().get(device), find(config.dataset)
    if recorded is None:
        return None
    channels, side = (info.image_shape[0], info.image_shape[2]) if info.image_shape else (3, config.crop)
    wanted = {"network": config.network, "channels": channels, "side": side, "batch": config.batch_size}
    known = [each for each in recorded["steps"] if wanted.items() <= each.items() and each["at_once"] <= at_once]
    cost = recorded["methods"].get(config.method)
    if not known or cost is None:
        return None
    step = max(known, key=lambda each: int(each["at_once"]))  # more at once than were measured take no less of a GPU
    size = config.subset or info.train_size
    training = round(size * (1 - config.validation_fraction))
    steps = config.batches_per_epoch or math.ceil(training / config.batch_size)
    measured = size - training + info.test_size + min(MEMORISATION_SAMPLES, training)
    measuring = FORWARD_SHARE * measured / config.batch_size
    return float((steps + measuring) * cost * at_once * step["step_ms"] / 1000)
