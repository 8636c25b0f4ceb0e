"""A report as files: the page, every table as Markdown, CSV and LaTeX, every figure as SVG and PDF.

    index.html
    tables/NAME.md  tables/NAME.csv  tables/NAME.tex     (other: runs that are in none of the paper's tables;
                                                          selection: what methods keep that pick samples)
    figures/NAME.svg  figures/NAME.pdf

Each file is written whole or not at all, the page last, so that it never speaks of a file that is not there. Whatever
else lies in the folder is left alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tnlpad.atomic_files import write_by_rename
from tnlpad.paper.cells import SMOKE
from tnlpad.records.archive import FinishedRecord, Problem
from tnlpad.records.store import RecordError
from tnlpad.report.datasets import DatasetFacts
from tnlpad.report.drawings import DRAWINGS, inline_svg, save_figure
from tnlpad.report.latex import latex
from tnlpad.report.markdown import markdown
from tnlpad.report.plain import csv_text
from tnlpad.report.results import TITLES, TableResults, table_results
from tnlpad.report.results_page import Contents, FigureOnPage, results_page
from tnlpad.report.selection import NAME as SELECTION
from tnlpad.report.selection import Setting, selection_csv, selection_latex, selection_markdown, settings_with_selection
from tnlpad.report.studies import NAME as OTHER
from tnlpad.report.studies import Study, studies, studies_csv, studies_latex, studies_markdown

FORMATS: dict[str, Callable[[TableResults], str]] = {"md": markdown, "csv": csv_text, "tex": latex}
STUDY_FORMATS: dict[str, Callable[[Sequence[Study]], str]] = {
    "md": studies_markdown,
    "csv": studies_csv,
    "tex": studies_latex,
}
SELECTION_FORMATS: dict[str, Callable[[Sequence[Setting]], str]] = {
    "md": selection_markdown,
    "csv": selection_csv,
    "tex": selection_latex,
}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what it was made of."""

    page: Path
    files: tuple[Path, ...]
    tables: tuple[TableResults, ...]
    studies: tuple[Study, ...]
    selection: tuple[Setting, ...]
    figures: tuple[FigureOnPage, ...]
    problems: tuple[Problem, ...]


def write_report(
    out: Path,
    records: Sequence[FinishedRecord],
    problems: Sequence[Problem],
    *,
    tables: Sequence[str] = (),
    datasets: Sequence[DatasetFacts] = (),
    extras: Mapping[str, Mapping[str, Any]] | None = None,
    command: str = "tnlpad report",
) -> Report:
    """Write everything into a folder.

    Args:
        out: The folder, which exists.
        records: The runs to report on.
        problems: Records that were left out: the page says so.
        tables: Names of tables to write, whether or not they have runs, and nothing of runs that are in none; by
            default those that have some, the names of the others in the overview, a table of all other runs and one
            of what methods keep.
        datasets: For the summary of datasets.
        extras: By figure, what was computed for it beside the runs.
        command: What makes this report again.
    """
    drawable, unreadable = _with_curves(records)
    results = [table_results(name, records) for name in tables or _all_tables(records)]
    files = []
    for table in results:
        if table.filled or tables:
            texts = {ending: text(table) for ending, text in FORMATS.items()}
            files += _write_table(out / "tables", table.name, texts)
    others = [] if tables else studies(records)
    if others:
        files += _write_table(out / "tables", OTHER, {ending: text(others) for ending, text in STUDY_FORMATS.items()})
    selection = [] if tables else settings_with_selection(drawable)
    if selection:
        texts = {ending: text(selection) for ending, text in SELECTION_FORMATS.items()}
        files += _write_table(out / "tables", SELECTION, texts)
    figures = []
    for name in DRAWINGS:
        figure, written, problem = _figure(name, out / "figures", drawable, extras or {})
        figures.append(figure)
        files += written
        unreadable += [problem] if problem else []
    contents = Contents(
        records=records,
        problems=(*problems, *unreadable),
        tables=results,
        studies=others,
        selection=selection,
        figures=figures,
        datasets=datasets,
        command=command,
    )
    page = out / "index.html"
    write_by_rename(page, results_page(contents).encode())
    return Report(
        page=page,
        files=(page, *files),
        tables=tuple(results),
        studies=tuple(others),
        selection=tuple(selection),
        figures=tuple(figures),
        problems=tuple(contents.problems),
    )


def _all_tables(records: Sequence[FinishedRecord]) -> list[str]:
    """Those of the paper, and the trial grid if it was run."""
    return [name for name in TITLES if name != SMOKE or table_results(name, records).filled]


def _with_curves(records: Sequence[FinishedRecord]) -> tuple[list[FinishedRecord], list[Problem]]:
    """A run whose epochs are damaged still has its summary: it counts in tables and is missing from figures."""
    drawable, problems = [], []
    for record in records:
        try:
            _ = record.curves
        except RecordError as error:
            reason = f"its curves alone, since its numbers are whole: {error}"
            problems.append(Problem(kind="damaged", path=record.source, reason=reason))
        else:
            drawable.append(record)
    return drawable, problems


def _write_table(folder: Path, name: str, texts: Mapping[str, str]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for ending, text in texts.items():
        files.append(folder / f"{name}.{ending}")
        write_by_rename(files[-1], text.encode())
    return files


def _figure(
    name: str, folder: Path, records: Sequence[FinishedRecord], extras: Mapping[str, Mapping[str, Any]]
) -> tuple[FigureOnPage, list[Path], Problem | None]:
    drawing, problem = DRAWINGS[name], None
    figure, findings = None, ""
    try:
        figure = drawing.draw(records, extras)
        findings = drawing.findings(records, extras) if figure is not None else ""
    except (KeyError, TypeError, ValueError, IndexError) as error:  # a file by a hand or a version that is not ours
        figure, reason = None, f"the figure {name} cannot be drawn from it ({type(error).__name__}: {error})"
        problem = Problem(kind="damaged", path=Path(f"{name}.json"), reason=reason)
    files: list[Path] = []
    svg = None
    if figure is not None:
        folder.mkdir(parents=True, exist_ok=True)
        files = save_figure(figure, folder / name)
        svg = Markup(inline_svg(figure, name, drawing.title, findings or drawing.caption))  # built from our own words
    on_page = FigureOnPage(
        name=name,
        title=drawing.title,
        caption=drawing.caption,
        needs=drawing.needs,
        command=drawing.command or f"tnlpad reproduce {name}",
        findings=findings,
        svg=svg,
    )
    return on_page, files, problem
