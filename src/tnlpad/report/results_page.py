"""The HTML page of a report: every table next to the paper's numbers, curves for every column, figures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup, escape

from tnlpad import __version__
from tnlpad.paper.cells import SMOKE, TABLES
from tnlpad.records.archive import FinishedRecord, Problem
from tnlpad.report import leads, overview, paper_tables, selection, studies, words
from tnlpad.report.drawings.panels import Drawing
from tnlpad.report.leads import Lead
from tnlpad.report.page import environment
from tnlpad.report.paper_tables import blocks
from tnlpad.report.remarks import Remarks, outside_table
from tnlpad.report.results import MARKS, Comparison, TableResults, verdict
from tnlpad.report.selection import Setting
from tnlpad.report.studies import Study
from tnlpad.report.style import stylesheet
from tnlpad.report.table import Table
from tnlpad.report.words import counted

MAX_OPEN_BLOCKS = 3  # a page with more starts with all of them folded
MAX_OPEN_ROWS = 24  # of all studies together


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
class CurvesOnPage:
    """Curves of the runs of a column; `file` is the stem of their files, if there are any."""

    figures: Sequence[Markup]
    file: str | None


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
    curves: Mapping[str, CurvesOnPage]  # by `block_name` and `study_name`
    datasets: Table | None
    remarks: Remarks  # on cells outside two standard errors of the paper
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
        facts=_facts(contents.records),
        warnings=[problem for problem in contents.problems if problem.kind in ("damaged", "conflicting")],
        notes=_notes(contents.problems),
        version=__version__,
        colours=Markup(stylesheet()),
        selection_drawn=any(figure.name == selection.NAME and figure.svg for figure in contents.figures),
        is_paper=lambda table: table.name != SMOKE,
        block_name=block_name,
        count_marks=_count_marks,
        leads=leads,
        outside=partial(outside_table, remarks=contents.remarks),
        study_name=study_name,
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
        "seeds": [", ".join(map(str, sorted({record.config["seed"] for record in records})))] if records else [],
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


def block_name(table: str, block: str) -> str:
    """Return the id of a block, and the name of its curves. The table is part of it, because tables share columns."""
    return f"{table}-{block}".replace("/", "-").replace(".", "-")


def study_name(study: int, block: int) -> str:
    """Return the name of a study's curves for one noise, by the place of both on the page, counted from 1."""
    return f"other-{study}-{block}"


def _with_code(text: str) -> Markup:
    """Turn words between backticks into code elements."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )
