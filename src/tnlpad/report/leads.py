"""Paired comparison of TNLPAD with every method: over the seeds that both have, for each column of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tnlpad.paper.cells import SMOKE, identity
from tnlpad.report.groups import Group
from tnlpad.report.latex import latex_file, latex_table
from tnlpad.report.paired import MIN_SEEDS, Paired, comparable_groups, paired
from tnlpad.report.paper_tables import ONE_MATRIX, OURS, blocks
from tnlpad.report.results import TITLES, Entry, TableResults
from tnlpad.report.run_fields import plain_number
from tnlpad.report.table import StackedCell, Table, TableFiles, folded
from tnlpad.report.words import column_heads, column_title, dataset_title, method_title, signed

NAME = "paired"  # of the files
TITLE = "Paired comparison"
# Rows of ours that extend another method are compared with that method alone, the others with every method.
EXTENDED = {"self+tnlpad": "self", "dividemix+tnlpad": "dividemix"}
LEGEND = (
    "Difference of test accuracy at the chosen epoch, in points, over seeds that both methods have: such runs share "
    "their wrong labels, split and batches. Its mean ± standard error with n in brackets, and below it the difference "
    f"in the paper. Bold: decided, since the 95 % confidence interval by Student’s t with at least {MIN_SEEDS} seeds "
    "excludes zero. Some comparisons of many are decided by chance alone."
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
    def pair(self) -> str:
        """Both methods, as a difference."""
        return f"{method_title(self.ours.cell.method)} − {method_title(self.rival.cell.row)}"

    @property
    def enough(self) -> bool:
        """Whether there are enough common seeds to decide."""
        return self.paired.n >= MIN_SEEDS

    @property
    def statement(self) -> str:
        """The comparison as a sentence."""
        names = method_title(self.ours.cell.row), method_title(self.rival.cell.row)
        verb = "leads" if self.paired.difference >= 0 else "trails"
        text = f"{self.place}: {names[0]} {verb} {names[1]} by {abs(self.paired.difference):.2f}"
        if self.paired.standard_error is not None:
            text += f" with standard error {self.paired.standard_error:.2f}"
        text += f" (n {self.paired.n})"
        text += "" if self.published is None else f", where the paper has {signed(self.published)}"
        return f"{text}; 95 % interval {interval_text(self.paired)}."


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


def difference_text(each: Paired) -> str:
    """Return "+0.78 ± 0.63": the mean and its standard error."""
    error = f" ± {each.standard_error:.2f}" if each.standard_error is not None else ""
    return f"{signed(each.difference)}{error}"


def interval_text(each: Paired) -> str:
    """Return "−1.94 to +3.50"; empty with too few seeds."""
    half = each.half_width
    return "" if half is None else f"{signed(each.difference - half)} to {signed(each.difference + half)}"


# Tables ---------------------------------------------------------------------------------------------------------------


def counts_table(found: Sequence[Lead]) -> Table:
    """Return a row for each pair of methods: over the columns with enough common seeds, how often who is ahead."""
    pairs: dict[str, list[Lead]] = {}
    for lead in found:
        if lead.enough:
            pairs.setdefault(lead.pair, []).append(lead)
    rows = []
    for pair, each in pairs.items():
        ahead, behind = sum(lead.paired.ahead for lead in each), len(behind_in(each))
        published = [lead.published for lead in each if lead.published is not None]
        paper = signed(fmean(published)) if len(published) == len(each) else ""
        mean = signed(fmean(lead.paired.difference for lead in each))
        data = ", ".join(dict.fromkeys(dataset_title(lead.ours.cell.dataset) for lead in each))
        rows.append([pair, data, *map(str, (len(each), ahead, len(each) - ahead - behind, behind)), mean, paper])
    headings = ("difference", "data", "columns", "ahead", "not decided", "behind", "mean", "mean in the paper")
    return Table(title=TITLE, note=LEGEND, headings=headings, align="llrrrrrr", rows=rows)


def lead_matrices(found: Iterable[Lead]) -> list[Table]:
    """Return the comparisons as the paper arranges its tables: one for each dataset, with pairs against columns."""
    parts: dict[str, list[Lead]] = {}
    for lead in found:
        cell = lead.ours.cell
        dataset = "" if cell.table in ONE_MATRIX else f": {dataset_title(cell.dataset)}"
        parts.setdefault(f"{TITLES[cell.table]}{dataset}", []).append(lead)
    return [_matrix(name, part) for name, part in parts.items()]


def behind_in(found: Iterable[Lead]) -> list[Lead]:
    """Return the comparisons in which TNLPAD is decidedly behind."""
    return [lead for lead in found if lead.paired.decided and not lead.paired.ahead]


def _matrix(title: str, found: Sequence[Lead]) -> Table:
    columns = list(dict.fromkeys(lead.ours.cell.column for lead in found))
    cells = {(lead.pair, lead.ours.cell.column): _cell(lead) for lead in found}
    return Table(
        title=title,
        headings=["difference", *map(column_title, columns)],
        short_headings=[("", ""), *map(column_heads, columns)],
        align="l" + "r" * len(columns),
        rows=[[pair, *(cells.get((pair, c), "·") for c in columns)] for pair in dict.fromkeys(p for p, _ in cells)],
    )


def _cell(lead: Lead) -> StackedCell:
    below = "" if lead.published is None else signed(lead.published)
    mark = f"({lead.paired.n})"
    return StackedCell(text=difference_text(lead.paired), mark=mark, below=below, bold=lead.paired.decided)


def intervals_table(found: Sequence[Lead]) -> Table:
    """Return a row for each comparison, with its confidence interval."""
    rows = [
        [
            lead.pair,
            lead.place,
            f"{difference_text(lead.paired)} ({lead.paired.n})",
            interval_text(lead.paired),
            "" if lead.published is None else signed(lead.published),
        ]
        for lead in found
    ]
    headings = ("difference", "data", "mean ± standard error (n)", "95 % interval", "paper")
    return Table(title=TITLE, note=LEGEND, headings=headings, align="llrrr", rows=rows)


# Files ----------------------------------------------------------------------------------------------------------------


def leads_markdown(found: Sequence[Lead], level: int) -> str:
    """Return the comparisons under a heading: counts, matrices, sentences where TNLPAD is behind, and intervals."""
    counted = counts_table(found)
    parts = [f"{'#' * level} {TITLE}\n", f"{LEGEND}\n", *([counted.to_markdown()] if counted.rows else [])]
    parts += [matrix.to_markdown(level + 1) for matrix in lead_matrices(found)]
    if behind := behind_in(found):
        parts.append("Where TNLPAD is decidedly behind:\n\n" + "".join(f"- {lead.statement}\n" for lead in behind))
    parts.append(folded(f"All comparisons with their intervals: {len(found)}", intervals_table(found).to_markdown()))
    return "\n".join(parts)


def leads_files(found: Sequence[Lead]) -> TableFiles:
    """Render all comparisons."""
    tables = [(f"{TITLE}: {matrix.title}. {LEGEND}", matrix) for matrix in lead_matrices(found)]
    counted = counts_table(found)
    tables += [(f"{TITLE}: over columns with at least {MIN_SEEDS} common seeds.", counted)] if counted.rows else []
    return TableFiles(
        markdown=leads_markdown(found, 1),
        latex=latex_file(TITLE, (latex_table(table, caption) for caption, table in tables)),
        rows=[_plain_row(lead) for lead in found],
    )


def _plain_row(lead: Lead) -> Mapping[str, Any]:
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
