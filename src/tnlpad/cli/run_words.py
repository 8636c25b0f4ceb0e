"""A finished run in words and numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """The chosen epoch and the last one, by validation and test."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=summary["run_id"], title_justify="left")
    validation = f"{summary['config']['validation']} validation"
    test = "test, %" if "data" not in summary["config"] else "test part, labels as given, %"
    for heading in ("", "epoch", f"{validation}, %", test):
        table.add_column(heading, justify="left" if not heading else "right")
    for label, key in ((f"chosen on {validation}", "chosen"), ("last epoch", "last")):
        row = summary[key]
        numbers = (_percent(row[name]) for name in ("validation_accuracy", "test_accuracy"))
        table.add_row(label, str(row["epoch"]), *numbers)
    console = Console()
    console.print(table)
    if summary["epochs_run"] < summary["config"]["epochs"]:
        console.print(
            f"Ended {summary['stopped']}, after {summary['epochs_run']} of {summary['config']['epochs']} epochs."
        )
    console.print(f"Record: {folder}", highlight=False, markup=False, soft_wrap=True)


def _percent(share: float | None) -> str:
    return "no test part" if share is None else f"{100 * share:.2f}"
