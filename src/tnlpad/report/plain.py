"""A table as plain data and as CSV: a row for each group of runs and for each empty cell; accuracies in percent."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from tnlpad.report.groups import Group
from tnlpad.report.results import Comparison, Entry, TableResults, compare
from tnlpad.report.tables import epochs_text


def csv_text(table: TableResults) -> str:
    """A line for each row."""
    return csv_of(rows(table))


def csv_of(plain: Sequence[Mapping[str, Any]]) -> str:
    """Rows of runs, at least one, with a heading; lists as words with blanks between them."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(plain[0]), lineterminator="\n")
    writer.writeheader()
    for row in plain:
        writer.writerow({**row, **{key: " ".join(map(str, row[key])) for key in ("seeds", "runs")}})
    return stream.getvalue()


def rows(table: TableResults) -> list[dict[str, Any]]:
    """None where there is nothing to say."""
    return [_row(entry, group) for entry in table.entries for group in entry.groups or (None,)]


def _row(entry: Entry, group: Group | None) -> dict[str, Any]:
    cell, published = entry.cell, entry.cell.published
    return {
        "table": cell.table,
        "cell": cell.group,
        "row": cell.row,
        "dataset": cell.dataset,
        "noise": cell.noise,
        "method": cell.method,
        "network": cell.resolved_network,
        **(of_runs(group) if group else NO_RUNS),
        "trials": cell.trials,
        "paper_mean": published.mean if published else None,
        "paper_sd": published.std if published else None,
        "paper_n": published.n if published else None,
        **_of_comparison(compare(group.chosen, published) if group and published else None),
        "command": None if entry.complete else entry.command,
    }


def of_runs(group: Group) -> dict[str, Any]:
    """What there is to say of runs that differ in their seed alone."""
    memorised = group.memorised
    return {
        "variant": group.label,
        "selection": group.selection,
        "chosen_epochs": epochs_text(group.epochs),
        "mean": digits(group.chosen.mean),
        "sd": digits(group.chosen.sd),
        "n": group.chosen.n,
        "seeds": list(group.seeds),
        "runs": [record.run_id for record in group.records],
        "last_mean": digits(group.last.mean),
        "last_sd": digits(group.last.sd),
        "memorised_mean": digits(memorised.mean) if memorised else None,
        "memorised_sd": digits(memorised.sd) if memorised else None,
    }


NO_RUNS: dict[str, Any] = {
    **dict.fromkeys(("variant", "selection", "chosen_epochs", "mean", "sd")),
    "n": 0,
    "seeds": [],
    "runs": [],
    **dict.fromkeys(("last_mean", "last_sd", "memorised_mean", "memorised_sd")),
}


def _of_comparison(comparison: Comparison | None) -> dict[str, Any]:
    return {
        "difference": digits(comparison.difference) if comparison else None,
        "bound": digits(comparison.bound) if comparison else None,
        "within": comparison.within if comparison else None,
        "unknown": comparison.unknown if comparison else None,
    }


def digits(value: float | None) -> float | None:
    """Enough for any table, and no rounding noise."""
    return None if value is None else round(value, 4)
