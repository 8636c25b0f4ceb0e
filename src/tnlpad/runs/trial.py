"""Estimate how long a run on user data takes, by training on a small part of them for a moment."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from tnlpad.data.own import OwnDataset
from tnlpad.errors import DataError
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.config import RunConfig
from tnlpad.runs.own_data import MIN_SAMPLES
from tnlpad.runs.recipes import scoring_interval
from tnlpad.runs.run import run
from tnlpad.training.loop import Diverged

WARM_UP_SAMPLES, TRIAL_SAMPLES = 2 * MIN_SAMPLES, 128
TRIAL_EPOCHS = 3


def estimated_seconds(config: RunConfig, own: OwnDataset, *, backbone: AnyBackbone | None, device: str) -> float | None:
    """Return about how long a run takes with all its epochs, computing features included; None if no trial succeeds.

    A first trial with fewer samples takes the time of loading and compiling out of the second one, since both happen
    once. The time of reading the data is not included.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tnlpad-") as folder:
            _trial(config, own, WARM_UP_SAMPLES, backbone, device, Path(folder))
            return _trial(config, own, TRIAL_SAMPLES, backbone, device, Path(folder))
    except (DataError, Diverged, ValueError):  # too few samples of a class, of a group or of a part
        return None


def _trial(
    config: RunConfig, own: OwnDataset, samples: int, backbone: AnyBackbone | None, device: str, folder: Path
) -> float:
    """Train on evenly spaced samples for a few epochs, and return the time of all samples and all epochs."""
    count = len(own.ids)
    part = own.take(np.unique(np.linspace(0, count - 1, min(samples, count)).astype(np.int64)))
    times = [time.perf_counter()]

    def stop_the_clock(*_: object) -> None:
        times.append(time.perf_counter())

    run(
        replace(config, dataset=part.shape.name, data=part.shape, epochs=min(TRIAL_EPOCHS, config.epochs)),
        folder,
        own=part,
        backbone=backbone,
        device=device,
        scoring_interval=scoring_interval(config.epochs),
        on_prepared=stop_the_clock,
        on_epoch=stop_the_clock,
    )
    preparing, *epochs = np.diff(times)
    typical = np.mean(epochs[1:] or epochs)  # the first may be slower
    return float(preparing + config.epochs * typical) * count / len(part.ids)
