"""The HTML page of a report: every table next to the paper's numbers, curves for every column, figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from tnlpad import __version__
from tnlpad.paper.cells import SMOKE, TABLES
from tnlpad.records.archive import FinishedRecord, Problem
from tnlpad.records.store import RecordError
from tnlpad.report import overview, paper_tables, selection, studies, words
from tnlpad.report.drawings.panels import Drawing
from tnlpad.report.figures import Series, curves, fitting
from tnlpad.report.groups import Group, reported
from tnlpad.report.overview import Lead
from tnlpad.report.page import environment
from tnlpad.report.paired import MIN_SEEDS
from tnlpad.report.paper_tables import Block, blocks
from tnlpad.report.results import MARKS, Comparison, TableResults, verdict
from tnlpad.report.selection import Setting
from tnlpad.report.studies import RowKey, Study
from tnlpad.report.style import method_style, method_variable, stylesheet
from tnlpad.report.table import Table
from tnlpad.report.words import counted, method_title

MAX_OPEN_BLOCKS = 3  # a page with more starts with all of them folded
MAX_OPEN_ROWS = 24  # of all studies together
MAX_CURVES = 12  # of a study in one figure


@dataclass(frozen=True, kw_only=True)
class FigureOnPage:
    """A figure; `svg` is None where it cannot be drawn yet."""

    name: str
    drawing: Drawing
    findings: str
    conclusion: str
    svg: Markup | None

    @property
    def command(self) -> str:
        """The command that makes the runs for it."""
        return self.drawing.command or f"tnlpad reproduce {self.name}"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that the page shows."""

    records: Sequence[FinishedRecord]
    problems: Sequence[Problem]  # records that were left out, and why
    tables: Sequence[TableResults]  # the paper's tables, with or without runs
    leads: Sequence[Lead]  # comparisons of TNLPAD with other methods, seed by seed
    studies: Sequence[Study]  # runs outside these tables
    selection: Sequence[Setting]  # runs of methods that select samples
    figures: Sequence[FigureOnPage]
    datasets: Table | None
    command: str  # makes this page


def results_page(contents: Contents) -> str:
    """Render the page."""
    filled = [table for table in contents.tables if table.filled]
    shown = {table.name: [block for block in blocks(table) if block.filled] for table in filled}
    template = environment().get_template("results.html.j2")
    return template.render(
        contents=contents,
        filled=filled,
        empty=[table for table in contents.tables if not table.filled],
        shown=shown,
        shown_names={name: {block.name for block in each} for name, each in shown.items()},
        open_blocks=sum(map(len, shown.values())) <= MAX_OPEN_BLOCKS,
        open_studies=sum(len(study.rows) for study in contents.studies) <= MAX_OPEN_ROWS,
        open_selection=sum(len(setting.rows) for setting in contents.selection) <= MAX_OPEN_ROWS,
        verdict=verdict(filled),
        whole=_whole(contents),
        coverage=overview.coverage_text(contents.tables) if _whole(contents) else "",
        counts={table.name: overview.counts(table) for table in contents.tables},
        headline=overview.headline(contents.leads),
        enough=[lead for lead in contents.leads if lead.paired.n >= MIN_SEEDS],
        facts=_facts(contents.records),
        warnings=[problem for problem in contents.problems if problem.kind in ("damaged", "conflicting")],
        notes=_notes(contents.problems),
        version=__version__,
        colours=Markup(stylesheet()),
        selection_drawn=any(figure.name == selection.NAME and figure.svg for figure in contents.figures),
        is_paper=lambda table: table.name != SMOKE,
        anchor=_anchor,
        block_figures=_block_figures,
        count_marks=_count_marks,
        overview=overview,
        study_figures=_study_figures,
        with_code=_with_code,
        marks=MARKS,
        paper_tables=paper_tables,
        selection=selection,
        studies=studies,
        words=words,
    )


def _whole(contents: Contents) -> bool:
    """Whether the page has every table of the paper."""
    return {table.name for table in contents.tables} >= set(TABLES)


def _count_marks(comparisons: Iterable[Comparison]) -> list[tuple[str, int]]:
    """Return the marks that occur with their counts, in the order of the legend."""
    counts = Counter(comparison.mark for comparison in comparisons)
    return [(mark, counts[mark]) for mark in MARKS if counts[mark]]


def _facts(records: Sequence[FinishedRecord]) -> dict[str, list[str]]:
    """Return what the runs have in common; several values come with their counts."""

    def values(found: Iterable[str]) -> list[str]:
        counter = Counter(found)
        return [text if len(counter) == 1 else f"{text} ({counted(n, 'run')})" for text, n in counter.most_common()]

    return {
        "seeds": [", ".join(map(str, sorted({record.config["seed"] for record in records})))],
        "machine": values(str(record.summary.get("machine", "not recorded")) for record in records),
        "versions": values(
            ", ".join(f"{name} {version}" for name, version in record.summary.get("versions", {}).items())
            or "not recorded"
            for record in records
        ),
        "epoch chosen by": values(record.summary["selection"] for record in records),
        "protocol": values(str(record.config["protocol"]) for record in records),
    }


def _notes(problems: Iterable[Problem]) -> list[str]:
    """Count the records that are left out without being damaged."""
    counts: Counter[str] = Counter(problem.kind for problem in problems)
    texts = {
        "unfinished": ("run is not finished yet", "runs are not finished yet"),
        "repeated": ("run was found twice, with the same result", "runs were found twice, with the same results"),
    }
    return [f"{counts[kind]} {pair[counts[kind] > 1]}." for kind, pair in texts.items() if counts[kind]]


def _anchor(table: str, block: str) -> str:
    """Return the id of a block. The table is part of it, because tables share columns."""
    return f"{table}-{block}".replace("/", "-").replace(".", "-")


def _with_code(text: str) -> Markup:
    """Turn words between backticks into code elements."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )


# Curves ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """A group of runs with the label of its curve and the method whose style it has."""

    method: str
    label: str
    group: Group


def _block_figures(table: TableResults, block: Block) -> list[Markup]:
    """Draw one group of each method: the main variant, or another one where it is missing."""
    lines = []
    for entry in block.entries:
        if entry.groups:
            group = next((each for each in entry.groups if each.label == block.main_label), entry.groups[0])
            label = ", ".join(filter(None, (method_title(entry.cell.row), block.variant(group))))
            lines.append(_Curve(method=entry.cell.row, label=label, group=group))
    return _figures(_anchor(table.name, block.name), block.title, lines)


def _study_figures(name: str, title: str, rows: Sequence[tuple[RowKey, Group]]) -> list[Markup]:
    """Draw the rows of a study, unless there are too many to tell curves apart."""
    if len(rows) > MAX_CURVES:
        return []
    times = Counter(key.method for key, _ in rows)
    labels = [key.title if times[key.method] > 1 else method_title(key.method) for key, _ in rows]
    pairs = zip(labels, rows, strict=True)
    return _figures(name, title, [_Curve(method=key.method, label=label, group=group) for label, (key, group) in pairs])


def _figures(name: str, title: str, lines: Sequence[_Curve]) -> list[Markup]:
    """Draw test accuracy and memorisation of every method whose curves can be read."""
    ordered = list(reversed(lines))
    ordered.sort(key=lambda line: method_style(line.method).width)  # prominent lines on top
    figures = []
    for quantity, heading, y_label in (
        ("test", "Test accuracy over the epochs", "test accuracy, %"),
        ("memorised", "Wrong training labels memorised over the epochs", "memorised, %"),
    ):
        series = [each for line in ordered if (each := _series(line, quantity)) is not None]
        if series:
            drawn = curves(f"{name}-{quantity}", f"{heading}: {title}", y_label, series, limits=fitting(series))
            figures.append(Markup(drawn))  # escaped there
    return figures


def _series(line: _Curve, quantity: str) -> Series | None:
    values = [row for record in line.group.records if (row := _percents(record, quantity))]
    if not values:
        return None
    style = method_style(line.method)
    colour = method_variable(line.method)
    return Series(label=line.label, colour=colour, dashes=style.dashes, width=style.width, values=values)


def _percents(record: FinishedRecord, quantity: str) -> list[float] | None:
    """Return a curve in percent; None where it is unreadable, which `problems` reports, or not recorded."""
    try:
        run = record.curves
    except RecordError:
        return None
    if quantity == "test":
        return [100 * share for share in run.test_accuracy]
    chosen = [run.memorised[name] for name in reported(run.memorised)]
    if not chosen or any(value is None for curve in chosen for value in curve):
        return None
    return [100 * sum(value or 0 for value in column) / len(column) for column in zip(*chosen, strict=True)]
