"""Finished runs as `tnlpad train` leaves them, without training: real configurations and folders, made-up numbers."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tnlpad.paper.cells import Experiment
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import command, configure, departures

SELECTION = "first epoch of the highest noisy validation accuracy"
TWO_NETWORKS = ("coteaching", "coteaching_plus", "jocor", "cnlcu", "cnlcu_hard")
KEYS = ("epoch", "validation_accuracy", "test_accuracy", "judged")


def write_run(
    out: Path,
    experiment: Experiment,
    seed: int,
    *,
    accuracy: float = 0.9,
    last: float = 0.8,
    memorised: float = 0.3,
    epochs: int = 6,
    protocol: str = "paper",
    settings: Mapping[str, Any] | None = None,
) -> RunFolder:
    """A run whose chosen epoch, the middle one, has `accuracy` and whose last one has `last`, exactly.

    Args:
        out: The folder of all runs.
        experiment: What it is a run of, such as a cell of a table.
        seed: Of the run.
        accuracy, last, memorised: Shares; what was memorised is that of the last epoch.
        epochs: How many to write, whatever the configuration says: a report reads what is there.
        protocol, settings: As for `configure`, beside the experiment's own.
    """
    config = configure(
        experiment.dataset,
        noise=experiment.noise,
        method=experiment.method,
        network=experiment.network,
        seed=seed,
        protocol=protocol,
        settings={**experiment.settings, **(settings or {})},
    )
    folder = RunFolder(out / config.run_id)
    folder.begin(config.to_json())
    middle = epochs // 2
    tests = [
        accuracy * (0.5 + 0.5 * k / middle) if k <= middle else accuracy + (last - accuracy) * (k - middle) / middle
        for k in range(epochs)
    ]
    tests[middle], tests[-1] = accuracy, last
    history = [epoch_record(config.method, k + 1, test, memorised * ((k + 1) / epochs)) for k, test in enumerate(tests)]
    for record in history:
        folder.append_epoch(record)
    folder.model_file.write_bytes(b"weights")
    best = max(history, key=lambda record: (record["validation_accuracy"], -record["epoch"]))
    folder.finish(
        {
            "run_id": config.run_id,
            "config": config.to_json(),
            "settings": departures(config),
            "chosen": {key: best[key] for key in KEYS},
            "last": {key: history[-1][key] for key in KEYS},
            "selection": SELECTION,
            "epochs_run": epochs,
            "stopped": "at the last epoch",
            "samples": {"train": 900, "validation": 100, "test": 100},
            "wrong_labels": 0.4,
            "seconds": {"this_process": 1.0, "epochs": 1.0},
            "machine": "a machine",
            "versions": {"tnlpad": "0.1.0", "python": "3.11.0", "torch": "2.6.0", "numpy": "2.0.0"},
            "command": command(config),
        }
    )
    return folder


def epoch_record(method: str, epoch: int, test: float, memorised: float) -> dict[str, Any]:
    """One line of `epochs.jsonl`."""
    names = ("sigma", "w") if method == "tnlpad" else ("first", "second") if method in TWO_NETWORKS else ("w",)
    validation = 0.6 * test
    numbers = {
        "validation_accuracy": validation,
        "validation_loss": 1.5,
        "test_accuracy": test,
        "test_loss": 0.7,
        "memorised": memorised,
    }
    judged = {name: dict(numbers) for name in names}
    if method == "tnlpad":
        judged["w"] |= {
            "validation_accuracy": 0.9 * validation,
            "test_accuracy": 0.9 * test,
            "memorised": min(1.0, 2 * memorised),
        }
    norms = {"gradient": 3.0 / epoch}
    norms |= (
        {"sigma": 8.0, "gamma": 5.0 / epoch, "drift": 0.5 / epoch, "averaged_gradient": 0.3}
        if method == "tnlpad"
        else {}
    )
    picked = {name: {"picked": 500, "precision": 0.9} for name in names} if method in TWO_NETWORKS else {}
    return {
        "epoch": epoch,
        "learning_rate": 0.01,
        "train_loss": 2.0 * math.exp(-epoch / 10),
        "judged": judged,
        "selection": picked,
        "norms": norms,
        "validation_accuracy": validation,
        "test_accuracy": test,
        "seconds": {"training": 0.1, "measuring": 0.01},
    }
