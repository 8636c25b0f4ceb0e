"""Print the settings of a run before it, and its results after it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tnlpad.cli.output import print_json

if TYPE_CHECKING:
    from tnlpad.runs.config import RunConfig


def print_settings(config: "RunConfig", as_json: bool) -> None:
    """List every name that `--set` takes for this run."""
    from tnlpad.runs.config import settings_listing

    rows = settings_listing(config)
    if as_json:
        print_json([{"name": name, "default": default, "meaning": meaning} for name, default, meaning in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "default", "meaning", title=f"Settings of {config.method} on {config.dataset}")
    table.title_justify = "left"
    for row in rows:
        table.add_row(*(Text(text, overflow="fold") for text in row))
    Console().print(table)
    typer.echo("Change any of them with --set NAME=VALUE. Defaults depend on DATA, --method, --noise and --network.")


def plan(config: "RunConfig") -> str:
    """Return what will be trained, in one sentence."""
    epochs = f"for {'up to ' if config.patience is not None else ''}{config.epochs} epochs"
    if config.folds is None or config.repeats is None:
        return f"Training {config.network} {epochs}."
    heads, repeats = config.folds * config.repeats, f"{config.repeats} repeat{'' if config.repeats == 1 else 's'}"
    return f"Training {heads} heads ({config.folds} folds × {repeats}) together, {epochs}."


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the accuracies of the chosen epoch and of the last one."""
    from rich.console import Console
    from rich.table import Table

    config = summary["config"]
    validation = "out-of-fold" if config.get("folds") is not None else f"{config['validation']} validation"
    columns = {"validation_accuracy": f"{validation}, %"}
    if summary["chosen"]["test_accuracy"] is not None:  # own data may have no test part
        columns["test_accuracy"] = "test, %" if "data" not in config else "test part, labels as given, %"
    table = Table("", title=summary["run_id"], title_justify="left")
    for heading in ("epoch", *columns.values()):
        table.add_column(heading, justify="right")
    how = "out of fold" if config.get("folds") is not None else f"on {config['validation']} validation"
    for label, key in ((f"chosen {how}", "chosen"), ("last epoch", "last")):
        row = summary[key]
        table.add_row(label, str(row["epoch"]), *(f"{100 * row[name]:.2f}" for name in columns))
    console = Console()
    console.print(table)
    if summary["epochs_run"] < config["epochs"]:
        console.print(f"Ended {summary['stopped']}, after {summary['epochs_run']} of {config['epochs']} epochs.")
    console.print(f"Run: {folder}", highlight=False, markup=False, soft_wrap=True)
