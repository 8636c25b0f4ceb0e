"""`tnlpad runs`: list the runs in a folder, the newest first."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.options import AsJson
from tnlpad.cli.output import exit_codes, fail, print_json, printable, say
from tnlpad.cli.progress import duration

if TYPE_CHECKING:
    from tnlpad.records.store import Record, RunFolder

State = Literal["finished", "running", "interrupted", "failed", "damaged"]
WIDTH_WITH_DETAILS = 140  # columns of a terminal; in fewer, what the name of a run says is not repeated
WIDTH_OF_PIPES = 240
SECONDS_PER_DAY = 24 * 3600
# What a run's data were read from, and its name in their record.
READ_FROM = {"data": "path", **{name: f"{name}_column" for name in ("label", "text", "group", "id")}} | {
    name: name for name in ("ignored", "images")
}


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run as it is listed.

    Args:
        name: Name of its folder.
        data: Path of the user's data, or name of the published dataset.
        noise: Noise that was added to the labels.
        method, network: As in its configuration.
        validation_accuracy, test_accuracy: Those of the chosen epoch, if the run is finished and has them.
        suspects: Number of labels that are more likely wrong than right; None if there is no list, or only a caution.
        state: What became of it.
        epochs_run, epochs: Number of finished epochs, and the most that there can be.
        changed: Time of its last change, in seconds since 1970.
        problem: Why it is damaged.
        differs: What tells it from the runs whose names differ from its own in the hash alone.
        facts: Everything in which such runs may differ; not listed.
    """

    name: str
    data: str | None = None
    noise: str | None = None
    method: str | None = None
    network: str | None = None
    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    suspects: int | None = None
    state: State
    epochs_run: int | None = None
    epochs: int | None = None
    changed: float
    problem: str | None = None
    differs: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the time as text."""
        plain = asdict(self) | {"changed": datetime.fromtimestamp(self.changed, UTC).isoformat(timespec="seconds")}
        del plain["facts"]
        return plain


def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that holds the runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder, the newest first.

    Shows the data, method, network, accuracy and number of suspects of each,
    whether it is finished, and when it last changed. Runs whose names differ
    in the hash alone are shown with the data or settings that differ.

    Example: tnlpad runs
    """
    from tnlpad.records.store import find_runs

    if not os.path.isdir(folder):
        what = "is a file, not a folder of runs" if os.path.exists(folder) else "does not exist"
        fail(f"{folder} {what}. Name the folder that `tnlpad train --out` wrote to.", code=3)
    with exit_codes():
        listed = _told_apart(sorted(map(_listed, find_runs(folder)), key=lambda each: -each.changed))
    if as_json:
        print_json([each.to_json() for each in listed])
        return
    if not listed:
        say(f"There are no runs in {folder}. `tnlpad train` writes them.")
        return
    _print(listed)
    for each in listed:
        if each.problem is not None:
            say(f"{printable(each.name)}: {each.problem}")


def _listed(folder: "RunFolder") -> Listed:
    """Read the records of a run; a damaged one is listed as such."""
    from tnlpad.records.store import RecordError

    name, changed = folder.path.name, folder.changed
    try:
        return Listed(name=name, changed=changed, **_configured(folder), **_results(folder))
    except (RecordError, OSError) as error:
        return Listed(name=name, changed=changed, state="damaged", problem=str(error))


def _configured(folder: "RunFolder") -> dict[str, Any]:
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.summaries import loaded_config

    config, about = loaded_config(folder), read_data_file(folder.path) or {}
    named = {key: config[key] for key in ("noise", "method", "network")}
    data = about.get("path", config["dataset"])
    return {"data": data, "epochs": config.get("epochs"), "facts": _facts(config, about), **named}


def _facts(config: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may tell runs with the same words in their names apart, the most telling first."""
    read = {name: about.get(key) or None for name, key in READ_FROM.items()}
    settings = {name: value for name, value in config.items() if name not in ("dataset", "options", "data")}
    options, shape = (value if isinstance(value := config.get(name), dict) else {} for name in ("options", "data"))
    return read | settings | options | {"samples": shape.get("samples"), "content": config["dataset"]}


def _results(folder: "RunFolder") -> dict[str, Any]:
    from tnlpad.records.store import damaged
    from tnlpad.records.summaries import summary_problem

    if not folder.finished:
        return {"state": _unfinished(folder), "epochs_run": folder.epoch_count}
    summary: Record = folder.summary()
    if (problem := summary_problem(summary)) is not None:
        raise damaged(folder.summary_file, problem)
    chosen = {name: summary["chosen"].get(name) for name in ("validation_accuracy", "test_accuracy")}
    return {"state": "finished", "epochs_run": summary["epochs_run"], "suspects": _suspects(folder), **chosen}


def _told_apart(listed: Sequence[Listed]) -> list[Listed]:
    """Return the runs, with what tells those apart whose names differ in the hash alone."""
    alike: dict[str, list[Listed]] = defaultdict(list)
    for each in listed:
        if each.facts:
            alike[each.name.rpartition("_")[0]].append(each)
    differs = {name: found for group in alike.values() for name, found in _differences(group).items()}
    return [replace(each, differs=differs.get(each.name, {})) for each in listed]


def _differences(alike: Sequence[Listed]) -> dict[str, dict[str, str]]:
    """Return the facts in which runs differ, by their names, without values that most of them have.

    A fact that follows from another one is left out, such as the milestones of as many epochs.
    """
    from tnlpad.runs.settings import as_text

    facts = [{name: as_text(value) for name, value in each.facts.items()} for each in alike]
    shown: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for each in facts for name in each):
        values = [each.get(name, as_text(None)) for each in facts]
        follows = any(len({*zip(other, values, strict=True)}) == len({*other}) for other in shown.values())
        if len({*values}) > 1 and not follows:
            shown[name] = values
    usual = {name: value for name, values in shown.items() if 2 * values.count(value := mode(values)) > len(values)}
    if "data" in shown:
        endings = _endings({*shown["data"]})
        shown["data"], usual = [endings[path] for path in shown["data"]], usual | {"data": ""}
    return {
        each.name: {name: values[row] for name, values in shown.items() if values[row] != usual.get(name)}
        for row, each in enumerate(alike)
    }


def _endings(paths: Collection[str]) -> dict[str, str]:
    """Return the ends of these paths, as long as they must be to differ."""
    parts = {path: Path(path).parts for path in paths}
    for count in range(1, max(map(len, parts.values()), default=0) + 1):
        ends = {path: os.path.join(*each[-count:]) for path, each in parts.items()}
        if len({*ends.values()}) == len(paths):
            return ends
    return {path: path for path in paths}


def _unfinished(folder: "RunFolder") -> State:
    if folder.in_use:
        return "running"
    return "failed" if folder.error_file.exists() else "interrupted"


def _suspects(folder: "RunFolder") -> int | None:
    """Count the suspects in the list beside the run; None if it is gone or changed, or none can be called so."""
    import csv
    from io import TextIOWrapper

    from tnlpad.regular_files import open_regular
    from tnlpad.suspects.export import CSV_FILE, is_as_written
    from tnlpad.suspects.ranking import SUSPECT_FROM

    path = folder.path / "suspects" / CSV_FILE
    if not is_as_written(path.parent, CSV_FILE):
        return None
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as file:
            sure = [float(row["confidence"]) >= SUSPECT_FROM for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return None
    return sum(sure) if any(sure) or not sure else None


def _print(listed: Sequence[Listed]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if Console().is_terminal else Console(width=WIDTH_OF_PIPES)
    details = console.width >= WIDTH_WITH_DETAILS
    tested = any(each.test_accuracy is not None for each in listed)
    table = Table("name", *(["data", "method", "network"] if details else []))
    numbers = ["validation, %", *(["test, %"] if tested else []), "suspects"]
    for heading in numbers:
        table.add_column(heading, justify="right")
    table.add_column("state")
    table.add_column("age", justify="right")
    for each in listed:
        accuracies = [each.validation_accuracy, *([each.test_accuracy] if tested else [])]
        cells = [_name(each), *(_details(each) if details else [])]
        cells += ["" if value is None else f"{100 * value:.2f}" for value in accuracies]
        cells += ["" if each.suspects is None else f"{each.suspects:,}", _state(each), _age(each.changed)]
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))
    console.print(table)


def _name(each: Listed) -> str:
    return "\n  ".join(map(printable, [each.name, *(f"{name}={value}" for name, value in each.differs.items())]))


def _details(each: Listed) -> list[str]:
    data = "" if each.data is None else printable(os.path.basename(each.data))
    data += f", {each.noise}" if each.noise not in (None, "none") else ""
    return [data, each.method or "", each.network or ""]


def _state(each: Listed) -> str:
    if each.state in ("finished", "damaged"):
        return each.state
    return f"{each.state}, epoch {each.epochs_run} of {each.epochs}"


def _age(changed: float) -> str:
    seconds = max(0.0, time.time() - changed)
    return duration(seconds) if seconds < 2 * SECONDS_PER_DAY else f"{seconds / SECONDS_PER_DAY:.0f} days"
