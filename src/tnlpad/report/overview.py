"""Summary of all tables: coverage, TNLPAD next to standard training, and paired comparisons with every method."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.paper.cells import SMOKE, identity
from tnlpad.report.groups import Group
from tnlpad.report.paired import MIN_SEEDS, Paired, best_of, comparable_groups, paired
from tnlpad.report.paper_tables import OURS, blocks, plain_number
from tnlpad.report.results import MARKS, Entry, TableResults
from tnlpad.report.table import StackedCell, Table, TableFiles, latex_file
from tnlpad.report.words import dataset_title, method_title, signed, spread_text

NAME = "paired"  # of the files
TITLE = "Paired comparison"
STANDARD = "standard"
# Rows of ours that extend another method are compared with that method alone, the others with every method.
EXTENDED = {"self+tnlpad": "self", "dividemix+tnlpad": "dividemix"}
PAIRED_LEGEND = (
    "Difference of test accuracy at the chosen epoch, in points, over seeds that both methods have: such runs share "
    "their wrong labels, split and batches. Standard error of its mean, and the 95 % confidence interval by Student’s "
    f"t with at least {MIN_SEEDS} seeds."
)
HEADLINE_LEGEND = (
    "Test accuracy in percent, mean ± standard deviation over seeds (n in brackets), and below it the published "
    "number. The better one is bold, or both if their paired difference is not decided. ≈ within two standard errors "
    "of the paper, ▲ above and ▼ below by more, ? unknown. The lead is the mean difference over common seeds ± its "
    "standard error, and below it the paper’s; its 95 % interval is by Student’s t."
)


@dataclass(frozen=True, kw_only=True)
class Lead:
    """TNLPAD and another method in one column of a table, with the groups of runs that are compared."""

    place: str  # the column, such as "CIFAR-10, symmetric 40 %"
    ours: Entry
    rival: Entry
    groups: tuple[Group, Group]
    paired: Paired

    @property
    def published(self) -> float | None:
        """The paper's difference of the two, in points."""
        ours, rival = self.ours.cell.published, self.rival.cell.published
        return ours.mean - rival.mean if ours and rival else None

    @property
    def statement(self) -> str:
        """The comparison as a sentence."""
        names = method_title(self.ours.cell.row), method_title(self.rival.cell.row)
        text = f"{names[0]} {_leads(self.paired.difference)} {names[1]} by {abs(self.paired.difference):.2f}"
        if self.paired.standard_error is not None:
            text += f" with standard error {self.paired.standard_error:.2f}"
        text += f" (n {self.paired.n})"
        return text if self.published is None else f"{text}, where the paper has {signed(self.published)}"


def leads(tables: Iterable[TableResults]) -> list[Lead]:
    """Return every comparison of TNLPAD with another method for which there are runs; tables may share some."""
    found: dict[tuple[str, str], Lead] = {}
    for table in tables:
        for block in blocks(table) if table.name != SMOKE else ():
            for ours in (entry for entry in block.entries if entry.cell.row in OURS):
                for rival in block.entries:
                    groups = comparable_groups(ours.groups, rival.groups) if _are_rivals(ours, rival) else None
                    difference = paired(*groups) if groups else None
                    if groups and difference:
                        lead = Lead(place=block.title, ours=ours, rival=rival, groups=groups, paired=difference)
                        found.setdefault((identity(ours.cell), identity(rival.cell)), lead)
    return list(found.values())


def _are_rivals(ours: Entry, rival: Entry) -> bool:
    wanted = EXTENDED.get(ours.cell.row)
    return rival.cell.row == wanted if wanted else rival.cell.row not in OURS


def _leads(difference: float) -> str:
    return "leads" if difference >= 0 else "trails"


# Coverage -------------------------------------------------------------------------------------------------------------


def counts(table: TableResults) -> dict[str, int]:
    """Return the numbers of cells, of cells with runs and with all seeds, and of each mark."""
    marks = Counter(comparison.mark for comparison in table.comparisons)
    complete = sum(entry.complete for entry in table.published)
    filled = sum(bool(entry.groups) for entry in table.published)
    cells = {"cells": len(table.published), "filled": filled, "complete": complete}
    return {**cells, **{mark: marks[mark] for mark in MARKS}}


def coverage(tables: Sequence[TableResults]) -> Table:
    """Return a row for each of the paper's tables, and one for all."""
    rows = [(table.title, counts(table)) for table in tables if table.name != SMOKE]
    total = {name: sum(each[name] for _, each in rows) for name in rows[0][1]}
    return Table(
        title="Coverage",
        headings=("table", "cells", "with runs", "with all seeds", *MARKS),
        align="l" + "r" * (3 + len(MARKS)),
        rows=[[title, *map(str, each.values())] for title, each in (*rows, ("all", total))],
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
        StackedCell(text=difference_text(lead.paired), below=below),
        interval_text(lead.paired),
    ]


def _headline_cell(entry: Entry, group: Group, bold: bool) -> StackedCell:
    comparison, published = entry.comparison(group), entry.cell.published
    mark = f"({group.chosen.n}){f' {comparison.mark}' if comparison else ''}"
    below = f"{spread_text(published)} ({published.n or 'n not stated'})" if published else ""
    return StackedCell(text=spread_text(group.chosen), mark=mark, below=below, bold=bold)


def difference_text(each: Paired) -> str:
    """Return "+0.78 ± 0.63 (3)": the mean, its standard error and n."""
    error = f" ± {each.standard_error:.2f}" if each.standard_error is not None else ""
    return f"{signed(each.difference)}{error} ({each.n})"


def interval_text(each: Paired) -> str:
    """Return "−1.94 to +3.50"; empty with too few seeds."""
    half = each.half_width
    return "" if half is None else f"{signed(each.difference - half)} to {signed(each.difference + half)}"


def variants_text(groups: Iterable[Group]) -> str:
    """Return how runs were computed, by dataset: "bfloat16, compiled (CIFAR-10)"; empty for runs by the recipe."""
    datasets: dict[str, dict[str, None]] = {}
    for group in groups:
        datasets.setdefault(group.label or "float32", {})[dataset_title(group.records[0].config["dataset"])] = None
    if set(datasets) <= {"float32"}:
        return ""
    return "Runs are " + "; ".join(f"{label} ({', '.join(names)})" for label, names in datasets.items()) + "."


# Paired comparison with every method ----------------------------------------------------------------------------------


def verdicts(found: Sequence[Lead]) -> list[str]:
    """Return a sentence for each method about the columns with enough common seeds."""
    sentences = []
    for pair, each in by_method(found).items():
        ahead = [lead for lead in each if lead.paired.decided and lead.paired.difference > 0]
        behind = [lead for lead in each if lead.paired.decided and lead.paired.difference < 0]
        words = [f"ahead in {len(ahead)}", f"behind in {len(behind)}"] if behind else [f"ahead in {len(ahead)}"]
        open_ = len(each) - len(ahead) - len(behind)
        words += [f"not decided in {open_}"] if open_ else []
        plural = "column" if len(each) == 1 else "columns"
        sentences.append(f"{pair[0]} against {pair[1]}, {len(each)} {plural}: {', '.join(words)}.")
    return sentences


def not_ahead(found: Sequence[Lead]) -> list[str]:
    """Return a sentence for each column with enough common seeds where TNLPAD is not decidedly ahead."""
    statements = []
    for lead in found:
        if lead.paired.n >= MIN_SEEDS and not (lead.paired.decided and lead.paired.difference > 0):
            ending = "" if lead.paired.decided else "not decided, "
            statements.append(f"{lead.place}: {lead.statement}; {ending}95 % interval {interval_text(lead.paired)}.")
    return statements


def by_method(found: Sequence[Lead]) -> dict[tuple[str, str], list[Lead]]:
    """Return the comparisons with enough common seeds, by the titles of both methods."""
    parts: dict[tuple[str, str], list[Lead]] = {}
    for lead in found:
        if lead.paired.n >= MIN_SEEDS:
            titles = method_title(lead.ours.cell.method), method_title(lead.rival.cell.row)
            parts.setdefault(titles, []).append(lead)
    return parts


def paired_table(found: Sequence[Lead]) -> Table:
    """Return a row for each comparison."""
    rows = [
        [
            method_title(lead.rival.cell.row),
            lead.place,
            method_title(lead.ours.cell.row),
            difference_text(lead.paired),
            interval_text(lead.paired),
            "" if lead.published is None else signed(lead.published),
        ]
        for lead in found
    ]
    headings = ("compared with", "data", "method", "difference ± standard error (n)", "95 % interval", "paper")
    return Table(title=TITLE, note=PAIRED_LEGEND, headings=headings, align="lllrrr", rows=rows)


def paired_files(found: Sequence[Lead], level: int = 1) -> TableFiles:
    """Render all comparisons as one table, under a Markdown heading of this level."""
    table = paired_table(found)
    return TableFiles(
        markdown=table.to_markdown(level),
        latex=latex_file(TITLE, [table.to_latex(f"{TITLE}. {PAIRED_LEGEND}")]),
        rows=[_plain_row(lead) for lead in found],
    )


def _plain_row(lead: Lead) -> dict[str, Any]:
    half, difference = lead.paired.half_width, lead.paired.difference
    return {
        "table": lead.ours.cell.table,
        "cell": lead.ours.cell.group,
        "row": lead.ours.cell.row,
        "compared_with": lead.rival.cell.row,
        "variant": lead.groups[0].label,
        "variant_compared_with": lead.groups[1].label,
        "difference": plain_number(difference),
        "standard_error": plain_number(lead.paired.standard_error),
        "n": lead.paired.n,
        "low": plain_number(None if half is None else difference - half),
        "high": plain_number(None if half is None else difference + half),
        "decided": lead.paired.decided,
        "paper_difference": plain_number(lead.published),
    }
