"""The demo's record as plain JSON values."""

import math
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

from tnlpad.experiments.demo.runs import DemoResult
from tnlpad.experiments.demo.task import DIGITS
from tnlpad.experiments.demo.training import Curves


def record(result: DemoResult, command: str) -> dict[str, Any]:
    """Everything worth keeping as plain JSON values: settings, curves, summary, and what is needed to run it again."""
    config = result.config
    return {
        "kind": "demo",
        "command": command,
        "versions": versions(),
        "seconds": round(result.seconds, 1),
        "configuration": {field.name: _plain(getattr(config, field.name)) for field in fields(config)},
        "test_size": DIGITS - config.train_size - config.validation_size,
        "selection": {
            "rule": "highest mean noisy validation accuracy of sigma in the last epoch",
            "chosen_c2": result.chosen_c2,
            "candidates": [
                {"c2": c2, "validation_last_epoch": summary(values)} for c2, values in result.validation_by_c2.items()
            ],
        },
        "methods": {method: _method_record(runs) for method, runs in result.curves.items()},
        "gain": _gain(result),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _method_record(runs: Sequence[Curves]) -> dict[str, Any]:
    epochs = [curves.chosen_epoch() for curves in runs]
    return {
        "test_last_epoch": summary([curves.test[-1] for curves in runs]),
        "test_chosen_epoch": summary([curves.test[epoch - 1] for curves, epoch in zip(runs, epochs, strict=True)]),
        "chosen_epochs": epochs,
        "memorised_last_epoch": summary([curves.memorised[-1] for curves in runs]),
        "curves": [{name: list(values) for name, values in asdict(curves).items()} for curves in runs],
    }


def _gain(result: DemoResult) -> dict[str, Any]:
    """σ against plain training, both in the last epoch, with √(sd² + sd²)."""
    plain, sigma = (summary([c.test[-1] for c in result.curves[method]]) for method in ("plain", "sigma"))
    sds = (plain["sd"], sigma["sd"])
    return {
        "test_last_epoch": sigma["mean"] - plain["mean"],
        "combined_sd": None if None in sds else math.hypot(*sds),
    }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (None for a single value), n, and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "values": list(values),
    }


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = ("tnlpad", "torch", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
    }
