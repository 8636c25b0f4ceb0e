"""`tnlpad report`: a page, tables and figures from the records of finished runs, compared with the paper."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.options import AsJson, Quiet, SpreadsheetSafe, output_option
from tnlpad.cli.output import fail, folder_for_results, print_json, say, way_out

if TYPE_CHECKING:
    from tnlpad.records.archive import FinishedRecord, Problem
    from tnlpad.records.store import Record
    from tnlpad.report.remarks import Remark
    from tnlpad.report.table import Table
    from tnlpad.report.write import Report

DEFAULT_RUNS = Path("runs")
DEFAULT_OUT = Path("report")
MAX_PRINTED_PROBLEMS = 10  # the page lists all of them


def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUNS]...", help="Folders of runs or archived records, or single ones (default: runs)."
        ),
    ] = None,
    out: Annotated[
        Path | None, output_option(metavar="FOLDER", help="Folder for the report (default: report).")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="Write only this table, such as simulated. Repeatable."),
    ] = None,
    archive: Annotated[
        Path | None,
        output_option(
            metavar="FOLDER", help="Store each finished run there as one small file. Writes a report only with --out."
        ),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a page, tables and figures from finished runs, compared with the paper.

    Reads records only and trains nothing. Writes index.html, tables/
    (Markdown, CSV, LaTeX) and figures/ (SVG, PDF), with curves of the runs of
    every column. Runs outside the paper's tables go to tables/other; the
    precision and recall of sample selection go to tables/selection.

    Example: tnlpad report runs --out report
    """
    sources = runs or [DEFAULT_RUNS]
    tables = _checked_tables(table or [])
    say("Reading records.", quiet)
    records, extras, problems = _read(sources, quiet)
    remarks = _remarks(sources)
    document: dict[str, Any] = {"runs": len(records)}
    if archive is not None:
        document |= _archive(records, folder_for_results(archive, "--archive"))
    if archive is None or out is not None:
        from tnlpad.report.write import write_report

        folder = folder_for_results(out or DEFAULT_OUT, "--out")
        say(f"Drawing figures and tables of {len(records):,} {'run' if len(records) == 1 else 'runs'}.", quiet)
        command = _command(sources, out, tables)
        with _writing_into(folder):
            written = write_report(
                folder,
                records,
                problems,
                tables=tables,
                datasets=datasets_table(),
                remarks=remarks,
                extras=extras,
                command=command,
                spreadsheet_safe=spreadsheet_safe,
            )
        if written.note is not None:
            say(f"Note: {written.note}", quiet)
        document |= _document(written)
        _say_problems(written.contents.problems[len(problems) :], quiet)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if document.get("refused"):
        raise typer.Exit(3)


def _checked_tables(names: Sequence[str]) -> list[str]:
    from tnlpad.report.results import TITLES
    from tnlpad.suggestions import nearest

    for name in names:
        if name not in TITLES:
            near = nearest(name, TITLES)
            hint = f" Did you mean {near}?" if near else ""
            fail(f"--table {name}: no such table.{hint} Tables: {', '.join(TITLES)}.", code=2)
    return list(dict.fromkeys(names))


def _read(sources: Sequence[Path], quiet: bool) -> "tuple[list[FinishedRecord], dict[str, Record], list[Problem]]":
    from tnlpad.paper.cells import FIGURES
    from tnlpad.records.archive import finished_records, read_extras

    problems: list[Problem] = []
    try:
        records = finished_records(sources, problems.append)
        extras = read_extras(sources, FIGURES, problems.append)
    except OSError as error:
        reason = error.strerror or error
        fail(f"cannot read {error.filename} ({reason}). Check the folder's name and permissions.", code=3)
    usable = bool(records or extras)  # a computed figure needs no runs
    own = sum(problem.kind == "own" for problem in problems)
    _say_problems(problems, quiet and usable)
    if usable and own:
        shown = "run on your own data is" if own == 1 else "runs on your own data are"
        say(f"{own} {shown} not shown: the report covers published datasets only.", quiet)
    if not usable:
        where = ", ".join(map(str, sources))
        if own:
            fail(
                f"no finished run in {where} is on a published dataset, and {own:,} {'is' if own == 1 else 'are'} on "
                "your own data: see `tnlpad runs` and `tnlpad suspects RUN`.",
                code=3,
            )
        fail(
            f"no finished runs in {where}. Name another folder, or make some: `tnlpad reproduce smoke` takes a few "
            "minutes.",
            code=3,
        )
    return records, extras, problems


def _remarks(sources: Sequence[Path]) -> "dict[str, Remark]":
    """Read the remarks beside archived records; exit with code 3 if they cannot be used."""
    from tnlpad.records.store import RecordError
    from tnlpad.report.remarks import read_remarks

    try:
        return {name: remark for source in sources for name, remark in read_remarks(source).items()}
    except RecordError as error:
        fail(str(error), code=3)


def _say_problems(problems: "Sequence[Problem]", quiet: bool) -> None:
    """Name damaged and conflicting records; count those that are left out on purpose."""
    bad = [problem for problem in problems if problem.kind in ("damaged", "conflicting")]
    for problem in bad[:MAX_PRINTED_PROBLEMS]:
        say(f"Left out: {problem}", quiet)
    if len(bad) > MAX_PRINTED_PROBLEMS:
        say(f"Left out: {len(bad) - MAX_PRINTED_PROBLEMS} more, which the page lists.", quiet)
    counted = {
        "unfinished": "not finished yet",
        "repeated": "stored twice, with the same result",
    }
    for kind, words in counted.items():
        if count := sum(problem.kind == kind for problem in problems):
            say(f"{count} {'run is' if count == 1 else 'runs are'} {words}.", quiet)


def _archive(records: "Sequence[FinishedRecord]", folder: Path) -> dict[str, Any]:
    from tnlpad.records.archive import archive, write_archived
    from tnlpad.records.store import RecordError, RunFolder

    done: dict[str, list[str]] = {"archived": [], "unchanged": [], "refused": []}
    for record in records:
        if not record.source.is_dir():  # an archived record
            continue
        try:
            with _writing_into(folder):
                new = write_archived(archive(RunFolder(record.source)), folder)
        except RecordError as error:
            say(f"Not archived: {error}")
            done["refused"].append(record.run_id)
        else:
            done["archived" if new else "unchanged"].append(record.run_id)
    return {"archive": str(folder), **done}


@contextmanager
def _writing_into(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fail(f"cannot write into {folder} ({error.strerror or error}). {way_out(error, 'another folder')}")
    except KeyboardInterrupt:
        say("Interrupted. The files written so far are complete; run the command again to write the others.")
        raise typer.Exit(130) from None


def datasets_table() -> "Table":
    """Return the datasets and their recipes, as in the paper's first table. Loads no torch."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.report.table import Table
    from tnlpad.report.words import dataset_title, network_title
    from tnlpad.runs.recipes import C2, DATASET_DEFAULTS

    rows = []
    for name, recipe in DATASET_DEFAULTS.items():
        facts = CATALOGUE[name]
        rows.append(
            [
                dataset_title(name),
                f"{facts.train_size:,}",
                f"{facts.test_size:,}",
                str(facts.num_classes),
                "{1}×{2}×{0}".format(*facts.image_shape) if facts.image_shape else "of any size",
                network_title(recipe["network"]),
                str(recipe["batch_size"]),
                str(recipe["epochs"]),
                f"{C2[name]:g}",
            ]
        )
    headings = ("dataset", "training", "test", "classes", "image", "network", "batch", "epochs", "c2")
    return Table(title="Datasets", headings=headings, align="lrrrrlrrr", rows=rows)


def _command(sources: Sequence[Path], out: Path | None, tables: Sequence[str]) -> str:
    words = ["tnlpad", "report", *(map(str, sources) if sources != [DEFAULT_RUNS] else ())]
    words += ["--out", str(out)] if out not in (None, DEFAULT_OUT) else []
    for name in tables:
        words += ["--table", name]
    return shlex.join(words)


def _document(written: "Report") -> dict[str, Any]:
    from tnlpad.report import selection, studies

    contents = written.contents
    rows = {name: table.rows for name, table in written.tables.items()}
    return {
        "page": str(written.page),
        "files": [str(path) for path in written.files],
        "tables": {table.name: rows[table.name] for table in contents.tables if table.filled},
        "other": rows.get(studies.NAME, []),
        "selection": rows.get(selection.NAME, []),
        "figures": {figure.name: "drawn" if figure.svg else figure.command for figure in contents.figures},
        "problems": [
            {"kind": problem.kind, "path": str(problem.path), "reason": problem.reason} for problem in contents.problems
        ],
    }


def _print(document: dict[str, Any]) -> None:
    from tnlpad.report.words import counted

    if "archive" in document:
        counts = ", ".join(f"{len(document[key])} {key}" for key in ("archived", "unchanged", "refused"))
        typer.echo(f"Records: {document['archive']} ({counts})")
    if "page" in document:
        drawn = sum(state == "drawn" for state in document["figures"].values())
        runs, tables = counted(document["runs"], "run"), counted(len(document["tables"]), "table")
        figures = f"{drawn} of {counted(len(document['figures']), 'figure')}"
        aside = "; runs outside the paper's tables: tables/other" if document["other"] else ""
        typer.echo(f"{runs}, {tables}, {figures}{aside}")
        typer.echo(f"Report: {document['page']}")
