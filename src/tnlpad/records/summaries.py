"""The summary and the configuration of a finished run, with the fields that other modules rely on."""

from collections.abc import Mapping
from typing import Any

from tnlpad.records.store import Record, RecordError, RunFolder, damaged
from tnlpad.schema import Optional, Schema, problem

NAMES: Schema = dict.fromkeys(("dataset", "noise", "method", "network"), str)
CONFIG: Schema = {
    **NAMES,
    "protocol": str,
    "seed": int,
    "options": dict,
    "milestones": list[int],
    "validation": Optional(str),
    "epochs": Optional(int),
}
CHOSEN: Schema = {"epoch": int, "validation_accuracy": float, "test_accuracy": Optional(float | None)}
# Keys that tables and figures rely on.
SUMMARY: Schema = {
    "run_id": str,
    "config": CONFIG,
    "settings": dict,
    "chosen": CHOSEN,
    "last": CHOSEN,
    "selection": str,
    "epochs_run": int,
    "stopped": Optional(str),
    "samples": Optional({"train": Optional(int)}),  # earlier versions wrote none
}
LOADED_SUMMARY: Schema = {
    "run_id": Optional(str),
    "chosen": {"validation_accuracy": float, "test_accuracy": Optional(float | None)},
}


def loaded_config(folder: RunFolder) -> Record:
    """Return the configuration of a run; raise `RecordError` if it does not name data, noise, method and network."""
    config = folder.config()
    if found := problem(config, NAMES):
        raise damaged(folder.config_file, found)
    return config


def loaded_summary(folder: RunFolder) -> Record:
    """Return the summary of a finished run; raise `RecordError` if it lacks the results of the chosen epoch."""
    summary = folder.summary()
    if found := problem(summary, LOADED_SUMMARY):
        raise damaged(folder.summary_file, found)
    return summary


def finished_summary(folder: RunFolder) -> Record:
    """Return the summary of a finished run; raise `RecordError` if the run is damaged or incomplete."""
    summary = folder.summary()
    if found := summary_problem(summary):
        raise damaged(folder.summary_file, found)
    if summary["run_id"] != folder.path.name or summary["config"] != folder.config():
        raise RecordError(
            f"{folder.summary_file} is the summary of another run. Restore it, or remove the folder to start again."
        )
    missing = None
    if (epochs := folder.epoch_count) != summary["epochs_run"]:
        missing = f"{folder.epochs_file.name} has {epochs} of {summary['epochs_run']} epochs"
    elif not folder.model_file.exists():
        missing = f"there is no {folder.model_file.name}"
    if missing:
        raise RecordError(
            f"{folder.path} is damaged: it has a summary, but {missing}. Restore the files, or remove the folder to "
            "start again."
        )
    folder.artefact(folder.epochs_file.name)  # raises if it is damaged
    return summary


def summary_problem(summary: Any) -> str | None:
    """Return why this is not the summary of a run, or None. Keys that no table or figure uses are not checked."""
    return problem(summary, SUMMARY) or _epoch_problem(summary, "chosen") or _epoch_problem(summary, "last")


def _epoch_problem(summary: Mapping[str, Any], key: str) -> str | None:
    epoch = summary[key]["epoch"]
    if not 1 <= epoch <= summary["epochs_run"]:
        return f"{key}.epoch is {epoch}, and the run has {summary['epochs_run']} epochs"
    tested = "data" not in summary["config"]  # own data may have no test part
    for name in ("validation_accuracy", "test_accuracy"):
        value = summary[key].get(name)
        if (value is None and (tested or name == "validation_accuracy")) or (value is not None and not 0 <= value <= 1):
            return f"{key}.{name} is {value!r}, not a number from 0 to 1"
    return None
