"""The demo: ordinary runs on digits with 40 % wrong labels, by standard training and TNLPAD, and their summary."""

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tnlpad import __version__
from tnlpad.grid.executors import execute
from tnlpad.grid.grid import run_grid
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import RunConfig, command, configure

NOISE = "symmetric:0.4"
# γ starts at 0, so that both methods start from the same network. c2 was chosen from 0.5, 1 and 2 by the noisy
# validation accuracy of σ in the last epoch.
SETTINGS: Mapping[str, Mapping[str, Any]] = {"standard": {}, "tnlpad": {"init": "zero", "c2": 2.0}}
JUDGED = {"plain": ("standard", "w"), "w": ("tnlpad", "w"), "sigma": ("tnlpad", "sigma")}  # method and weights
CURVES = {"test": "test_accuracy", "validation": "validation_accuracy", "memorised": "memorised"}


class DemoFailed(Exception):
    """A run of the demo has failed."""


def demo_runs(seeds: Sequence[int]) -> dict[str, list[RunConfig]]:
    """Return the runs of each method, one per seed."""
    return {
        method: [configure("digits", noise=NOISE, method=method, seed=seed, settings=settings) for seed in seeds]
        for method, settings in SETTINGS.items()
    }


def run_demo(
    runs: Mapping[str, Sequence[RunConfig]],
    out: Path,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Finish the runs in the folder `out`; their numbers do not depend on the number of parallel processes.

    Args:
        runs: Runs by method.
        out: Folder of the runs.
        workers: Number of parallel runs; more than one are separate processes.
        progress: Called with the number of finished runs and their total, at the start and after each.
    """
    configs = [config for pair in zip(*runs.values(), strict=True) for config in pair]
    progress(0, len(configs))
    ends = run_grid(configs, out, execute=partial(execute, workers=workers if workers > 1 else 0))
    with closing(ends):  # stops the workers if `progress` raises
        for done, ended in enumerate(ends, start=1):
            if ended.failure is not None:
                raise DemoFailed(f"{ended.run_id} failed: {ended.failure}")
            progress(done, len(configs))


def demo_record(runs: Mapping[str, Sequence[RunConfig]], out: Path, command_line: str) -> dict[str, Any]:
    """Return the results as plain JSON values: settings, curves, summaries, and how to run everything again."""
    folders = {method: [RunFolder(out / config.run_id) for config in configs] for method, configs in runs.items()}
    summaries = [folder.summary() for each in folders.values() for folder in each]
    epochs = {method: [folder.epochs() for folder in each] for method, each in folders.items()}
    methods = {key: _method_record(epochs[method], weights) for key, (method, weights) in JUDGED.items()}
    example = runs["tnlpad"][0]
    sizes = summaries[0]["samples"]
    return {
        "kind": "demo",
        "command": command_line,
        "versions": _versions(),
        "seconds": round(sum(summary["seconds"]["this_process"] for summary in summaries), 1),
        "configuration": {
            "seeds": [config.seed for config in runs["tnlpad"]],
            "noise_rate": example.noise_rate,
            "train_size": sizes["train"],
            "validation_size": sizes["validation"],
            "epochs": example.epochs,
            "batch_size": example.batch_size,
            "learning_rate": example.learning_rate,
            "learning_rate_drop": example.decay,
            "momentum": example.momentum,
            "weight_decay": example.weight_decay,
            "c1": example.options["c1"],
            "c2": example.options["c2"],
        },
        "test_size": sizes["test"],
        "runs": {config.run_id: command(config) for configs in runs.values() for config in configs},
        "methods": methods,
        "gain": _gain(methods["plain"]["test_last_epoch"], methods["sigma"]["test_last_epoch"]),
    }


def _method_record(runs: Sequence[Sequence[Mapping[str, Any]]], weights: str) -> dict[str, Any]:
    """Summarise the epochs of one method's runs, one list per seed, judged by these weights."""
    curves = [
        {name: [epoch["judged"][weights][key] for epoch in epochs] for name, key in CURVES.items()} for epochs in runs
    ]
    best = [each["validation"].index(max(each["validation"])) for each in curves]
    return {
        "test_last_epoch": summary([each["test"][-1] for each in curves]),
        "test_chosen_epoch": summary([each["test"][epoch] for each, epoch in zip(curves, best, strict=True)]),
        "chosen_epochs": [epoch + 1 for epoch in best],
        "memorised_last_epoch": summary([each["memorised"][-1] for each in curves]),
        "curves": curves,
    }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return mean, sample standard deviation (None for a single value), n, and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "values": list(values),
    }


def _gain(plain: Mapping[str, Any], sigma: Mapping[str, Any]) -> dict[str, Any]:
    """Compare σ with standard training in the last epoch; the combined standard deviation is √(sd² + sd²)."""
    several = plain["sd"] is not None
    return {
        "test_last_epoch": sigma["mean"] - plain["mean"],
        "combined_sd": math.hypot(plain["sd"], sigma["sd"]) if several else None,
    }


def _versions() -> dict[str, str]:
    packages = ("torch", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "tnlpad": __version__,  # that of an editable installation may be older
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
    }
