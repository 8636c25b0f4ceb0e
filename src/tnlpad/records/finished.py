"""Whether a finished run is whole: one answer for whoever trains, plans a grid or reports.

What the epochs hold is left to those who draw curves: they are counted, since there may be thousands of runs.
"""

from collections.abc import Mapping
from typing import Any

from tnlpad.records.store import Record, RecordError, RunFolder


def finished_summary(folder: RunFolder) -> Record:
    """The summary of a finished run; a `RecordError` says which part of the run is damaged, lost or another run's."""
    summary = folder.summary()
    if problem := problem_of(summary):
        raise RecordError(
            f"{folder.summary_file} is damaged ({problem}) and is not used. Restore it, or remove the run's folder to "
            "start anew."
        )
    if summary["run_id"] != folder.path.name or summary["config"] != folder.config():
        raise RecordError(
            f"{folder.summary_file} is the summary of another run than the folder's. Restore it, or remove the folder "
            "to start anew."
        )
    if lost := _lost(folder, summary):
        raise RecordError(
            f"{folder.path} is damaged: its summary says that it is finished, but {lost}. Restore what is missing, or "
            "remove the folder to start anew."
        )
    return summary


def _lost(folder: RunFolder, summary: Mapping[str, Any]) -> str | None:
    if (epochs := folder.epoch_count) != summary["epochs_run"]:
        return f"{folder.epochs_file.name} has {epochs} of {summary['epochs_run']} epochs"
    return None if folder.model_file.exists() else f"there is no {folder.model_file.name}"


# The summary ----------------------------------------------------------------------------------------------------------

KEYS: dict[str, type | tuple[type, ...]] = {
    "run_id": str,
    "config": dict,
    "settings": dict,
    "chosen": dict,
    "last": dict,
    "selection": str,
    "epochs_run": int,
}
FIELDS: dict[str, type] = {
    **dict.fromkeys(("dataset", "noise", "protocol", "method", "network"), str),
    "seed": int,
    "options": dict,
    "milestones": list,
}


def problem_of(summary: Any) -> str | None:
    """Why this is not the summary of a run; what tables and figures rely on is looked at, and nothing else."""
    if not isinstance(summary, dict):
        return "its summary is no JSON object"
    for key, kind in KEYS.items():
        if not isinstance(summary.get(key), kind):
            return f"{key} is missing or of the wrong type"
    samples = summary.get("samples", {})  # earlier versions wrote none
    if not isinstance(samples, dict) or not isinstance(samples.get("train", 0), int):
        return "samples.train is no number"
    return (
        _problem_of_config(summary["config"]) or _problem_of_end(summary, "chosen") or _problem_of_end(summary, "last")
    )


def _problem_of_config(config: Mapping[str, Any]) -> str | None:
    for name, kind in FIELDS.items():
        if not isinstance(config.get(name), kind):
            return f"config.{name} is missing or of the wrong type"
    return None


def _problem_of_end(summary: Mapping[str, Any], end: str) -> str | None:
    epoch = summary[end].get("epoch")
    if not isinstance(epoch, int):
        return f"{end}.epoch is missing or no number"
    if not 1 <= epoch <= summary["epochs_run"]:
        return f"{end}.epoch is {epoch}, and there are {summary['epochs_run']}"
    own_data = "data" in summary["config"]
    for name in ("validation_accuracy", "test_accuracy"):
        value = summary[end].get(name)
        if own_data and name == "test_accuracy" and value is None:  # they need not have a test part
            continue
        if not isinstance(value, (int, float)) or not 0 <= value <= 1:
            return f"{end}.{name} is {value!r}, which is no share"
    return None
