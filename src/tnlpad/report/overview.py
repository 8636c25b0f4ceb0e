"""Summary of all tables: coverage, and TNLPAD next to standard training."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tnlpad.paper.cells import SMOKE
from tnlpad.report.groups import Group
from tnlpad.report.leads import Lead, difference_text, interval_text
from tnlpad.report.paired import best_of
from tnlpad.report.results import MARKS, Entry, TableResults
from tnlpad.report.table import StackedCell, Table
from tnlpad.report.words import dataset_title, signed, spread_text

STANDARD = "standard"
HEADLINE_LEGEND = (
    "Test accuracy in percent, mean ± standard deviation over seeds (n in brackets), and below it the published "
    "number. The better one is bold, or both if their paired difference over at least three seeds is not decided. "
    "≈ within two standard errors of the paper, ▲ above and ▼ below by more, ? unknown. The lead is the mean "
    "difference over common seeds ± its standard error, and below it the paper’s; its 95 % interval is by Student’s t."
)


# Coverage -------------------------------------------------------------------------------------------------------------


def counts(table: TableResults) -> dict[str, int]:
    """Return the numbers of cells, of cells with runs and with all seeds, and of each mark."""
    marks = Counter(comparison.mark for comparison in table.comparisons)
    complete = sum(entry.complete for entry in table.published)
    filled = sum(bool(entry.groups) for entry in table.published)
    cells = {"cells": len(table.published), "filled": filled, "complete": complete}
    return {**cells, **{mark: marks[mark] for mark in MARKS}}


def coverage(tables: Sequence[TableResults]) -> Table:
    """Return a row for each of the paper's tables with runs, and one for all, with or without runs."""
    every = [(table, counts(table)) for table in tables if table.name != SMOKE]
    total = {name: sum(each[name] for _, each in every) for name in every[0][1]}
    rows = [(table.title, each) for table, each in every if table.filled]
    return Table(
        title="Coverage",
        headings=("table", "cells", "with runs", "with all seeds", *MARKS),
        align="l" + "r" * (3 + len(MARKS)),
        rows=[[title, *map(str, each.values())] for title, each in (*rows, ("all of the paper", total))],
    )


def coverage_text(tables: Sequence[TableResults]) -> str:
    """Return the coverage of all tables in one sentence."""
    each = [counts(table) for table in tables if table.name != SMOKE]
    cells, filled, complete = (sum(one[name] for one in each) for name in ("cells", "filled", "complete"))
    return f"{filled} of the {cells} published cells have runs, {complete} of them with as many seeds as the paper."


# TNLPAD next to standard training -------------------------------------------------------------------------------------


def headline(found: Sequence[Lead]) -> Table:
    """Return a row for each column in which both TNLPAD and standard training have runs."""
    rows = [_headline_row(lead) for lead in found if lead.rival.cell.row == STANDARD]
    headings = ("data", "Standard", "TNLPAD", "lead, same seeds", "95 % interval")
    return Table(
        title="TNLPAD and standard training", note=HEADLINE_LEGEND, headings=headings, align="lrrrr", rows=rows
    )


def _headline_row(lead: Lead) -> list[str | StackedCell]:
    ours, rival = lead.groups
    best = best_of({"ours": ours, "rival": rival})
    below = f"{signed(lead.published)}" if lead.published is not None else ""
    return [
        lead.place,
        _headline_cell(lead.rival, rival, bold="rival" in best),
        _headline_cell(lead.ours, ours, bold="ours" in best),
        StackedCell(text=f"{difference_text(lead.paired)} ({lead.paired.n})", below=below),
        interval_text(lead.paired),
    ]


def _headline_cell(entry: Entry, group: Group, bold: bool) -> StackedCell:
    comparison, published = entry.comparison(group), entry.cell.published
    mark = f"({group.chosen.n}){f' {comparison.mark}' if comparison else ''}"
    below = f"{spread_text(published)} ({published.n or 'n not stated'})" if published else ""
    return StackedCell(text=spread_text(group.chosen), mark=mark, below=below, bold=bold)


def variants_text(groups: Iterable[Group]) -> str:
    """Return how runs were computed, by dataset: "bfloat16, compiled (CIFAR-10)"; empty for runs by the recipe."""
    datasets: dict[str, dict[str, None]] = {}
    for group in groups:
        datasets.setdefault(group.label or "float32", {})[dataset_title(group.records[0].config["dataset"])] = None
    if set(datasets) <= {"float32"}:
        return ""
    return "Runs are " + "; ".join(f"{label} ({', '.join(names)})" for label, names in datasets.items()) + "."
