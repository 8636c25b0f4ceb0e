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
    """Print the accuracies of the chosen epoch and of the last one, without what an earlier version did not write."""
    from rich.console import Console
    from rich.table import Table

    config = summary["config"]
    validation = f"{config['validation']} validation" if "validation" in config else "validation"
    measured, how = validation, f"on {validation}"
    if config.get("folds") is not None:
        measured, how = "out-of-fold", "out of fold"
    rows = {f"chosen {how}": summary["chosen"], "last epoch": summary["last"]}
    columns = {"validation_accuracy": f"{measured}, %"}
    if any(row.get("test_accuracy") is not None for row in rows.values()):  # own data may have no test part
        columns["test_accuracy"] = "test, %" if "data" not in config else "test part, labels as given, %"
    table = Table("", title=summary["run_id"], title_justify="left")
    for heading in ("epoch", *columns.values()):
        table.add_column(heading, justify="right")
    for label, row in rows.items():
        shares = [row.get(name) for name in columns]
        table.add_row(label, str(row["epoch"]), *("" if share is None else f"{100 * share:.2f}" for share in shares))
    console = Console()
    console.print(table)
    if summary["epochs_run"] < (epochs := config.get("epochs", 0)):
        ended = summary.get("stopped", "early")
        console.print(f"Ended {ended}, after {summary['epochs_run']} of {epochs} epochs.", markup=False)
    console.print(f"Run: {folder}", highlight=False, markup=False, soft_wrap=True)
