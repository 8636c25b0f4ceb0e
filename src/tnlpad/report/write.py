"""Write a report: the page, every table as Markdown, CSV and LaTeX, every figure as SVG and PDF.

    index.html
    tables/NAME.md  tables/NAME.csv  tables/NAME.tex     (paired: TNLPAD with each method, seed by seed;
                                                          other: runs outside the paper's tables;
                                                          selection: sample selection; datasets: the datasets)
    figures/NAME.svg  figures/NAME.pdf                    (curves-NAME: curves of the runs of one column)

Files are written by rename, and the page last, so that it never refers to a missing file. Other files in the folder
stay as they are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tnlpad.atomic_files import write_by_rename
from tnlpad.paper.cells import SMOKE
from tnlpad.records.archive import FinishedRecord, Problem
from tnlpad.records.store import RecordError
from tnlpad.report import leads, selection, studies
from tnlpad.report.drawings import DRAWINGS
from tnlpad.report.latex import latex_file, latex_table
from tnlpad.report.paper_table_files import NO_REMARKS, paper_table_files
from tnlpad.report.paper_tables import blocks
from tnlpad.report.remarks import Remarks
from tnlpad.report.results import TITLES, TableResults, table_results
from tnlpad.report.results_page import Contents, CurvesOnPage, FigureOnPage, block_name, results_page, study_name
from tnlpad.report.run_curves import Curve, block_curves, file_figure, page_figures, study_curves
from tnlpad.report.studies import Study
from tnlpad.report.style import inline_svg, save_figure
from tnlpad.report.table import Table, TableFiles
from tnlpad.report.words import noise_title
from tnlpad.spreadsheets import Formulas

THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")  # the comma of "60,000"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The files of a report, and what they were made from.

    Args:
        page: The page.
        files: All files.
        tables: The contents of the files in tables/ by name.
        contents: What the page shows.
        note: A sentence if tables/ has cells that a spreadsheet takes for formulas.
    """

    page: Path
    files: tuple[Path, ...]
    tables: Mapping[str, TableFiles]
    contents: Contents
    note: str | None


def write_report(
    out: Path,
    records: Sequence[FinishedRecord],
    problems: Sequence[Problem],
    *,
    tables: Sequence[str] = (),
    datasets: Table | None = None,
    remarks: Remarks = NO_REMARKS,
    extras: Mapping[str, Mapping[str, Any]] | None = None,
    command: str = "tnlpad report",
    spreadsheet_safe: bool = False,
) -> Report:
    """Write a report into a folder.

    Args:
        out: The folder, which exists.
        records: The runs to report on.
        problems: Records that were left out; the page lists them.
        tables: Paper's tables to write, with or without runs, and nothing else. By default: those with runs, paired
            comparisons, a table of all other runs, and one of sample selection.
        datasets: Summary of the datasets.
        remarks: Remarks on cells outside two standard errors of the paper.
        extras: Computed data by figure.
        command: The command that makes this report.
        spreadsheet_safe: Whether formulas in CSV files become text.
    """
    drawable, unreadable = _with_curves(records)
    results = [table_results(name, records) for name in tables or TITLES]
    if not tables:  # the smoke grid only if it was run
        results = [table for table in results if table.name != SMOKE or table.filled]
    others = [] if tables else studies.studies(records)
    selecting = [] if tables else selection.settings_with_selection(drawable)
    compared = leads.leads(results)
    table_files = {table.name: paper_table_files(table, remarks=remarks) for table in results if table.filled or tables}
    if others:
        table_files[studies.NAME] = studies.studies_files(others)
    if datasets is not None and not tables:
        table_files["datasets"] = _plain_table_files(datasets)
    if compared and not tables:
        table_files[leads.NAME] = leads.leads_files(compared)
    if selecting:
        table_files[selection.NAME] = selection.selection_files(selecting)
    files, formulas = [], Formulas(safe=spreadsheet_safe)
    for name, texts in table_files.items():
        for suffix, text in texts.by_suffix(formulas).items():
            files.append(out / "tables" / f"{name}.{suffix}")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            write_by_rename(files[-1], text.encode())
    figures = []
    for name in DRAWINGS:
        figure, written, problem = _figure(name, out / "figures", drawable, extras or {})
        figures.append(figure)
        files += written
        unreadable += [problem] if problem else []
    curves, written = _curves(results, others, out / "figures")
    files += written
    contents = Contents(
        records=records,
        problems=(*problems, *unreadable),
        tables=results,
        leads=compared,
        studies=others,
        selection=selecting,
        figures=figures,
        curves=curves,
        datasets=datasets,
        remarks=remarks,
        command=command,
    )
    page = out / "index.html"
    write_by_rename(page, results_page(contents).encode())
    note = formulas.note(out / "tables", "tnlpad report")
    return Report(page=page, files=(page, *files), tables=table_files, contents=contents, note=note)


def _plain_table_files(table: Table) -> TableFiles:
    """Return a table of text in all formats. Numbers have no thousands separators in the plain data."""
    rows = [[THOUSANDS.sub("", str(cell)) for cell in row] for row in table.rows]
    return TableFiles(
        markdown=table.to_markdown(1),
        latex=latex_file(table.title, [latex_table(table, f"{table.title}.")]),
        rows=[dict(zip(table.headings, row, strict=True)) for row in rows],
    )


def _with_curves(records: Sequence[FinishedRecord]) -> tuple[list[FinishedRecord], list[Problem]]:
    """Return the runs with readable curves. The others count in tables, and are missing from figures."""
    drawable, problems = [], []
    for record in records:
        try:
            _ = record.curves
        except RecordError as error:
            reason = f"curves unreadable, final numbers used: {error}"
            problems.append(Problem(kind="damaged", path=record.source, reason=reason))
        else:
            drawable.append(record)
    return drawable, problems


def _curves(
    tables: Sequence[TableResults], others: Sequence[Study], folder: Path
) -> tuple[dict[str, CurvesOnPage], list[Path]]:
    """Draw the curves of every column with runs, for the page and as files."""
    drawn: dict[str, tuple[str, list[Curve]]] = {
        block_name(table.name, block.name): (block.title, block_curves(block))
        for table in tables
        for block in blocks(table)
        if block.filled
    }
    for number, study in enumerate(others, start=1):
        for place, (noise, rows) in enumerate(study.blocks, start=1):
            drawn[study_name(number, place)] = (f"{study.title}, {noise_title(noise)}", study_curves(rows))
    found, files = {}, []
    for name, (title, lines) in drawn.items():
        figure = file_figure(title, lines)
        stem = f"curves-{name}"
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            files += save_figure(figure, folder / stem)
        found[name] = CurvesOnPage(figures=page_figures(name, title, lines), file=None if figure is None else stem)
    return found, files


def _figure(
    name: str, folder: Path, records: Sequence[FinishedRecord], extras: Mapping[str, Mapping[str, Any]]
) -> tuple[FigureOnPage, list[Path], Problem | None]:
    drawing, figure, findings, conclusion, problem = DRAWINGS[name], None, "", "", None
    try:
        figure = drawing.draw(records, extras)
        if figure is not None:
            findings, conclusion = drawing.findings(records, extras), drawing.conclusion(records, extras)
    except (KeyError, TypeError, ValueError, IndexError) as error:  # data of another version, or edited by hand
        path, source = (Path(f"{name}.json"), "it") if name in extras else (folder / name, "these runs")
        reason = f"the figure {name} cannot be drawn from {source} ({type(error).__name__}: {error})"
        figure, problem = None, Problem(kind="damaged", path=path, reason=reason)
    if figure is None:
        return FigureOnPage(name=name, drawing=drawing, findings="", conclusion="", svg=None), [], problem
    folder.mkdir(parents=True, exist_ok=True)
    files = save_figure(figure, folder / name)
    description = " ".join(filter(None, (conclusion, findings))) or drawing.caption
    svg = Markup(inline_svg(figure, name, drawing.title, description))  # escaped there
    return FigureOnPage(name=name, drawing=drawing, findings=findings, conclusion=conclusion, svg=svg), files, None
