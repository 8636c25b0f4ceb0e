"""`tnlpad report`: the records of finished runs as a page, tables and figures, beside the paper's numbers."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tnlpad.cli.output import fail, folder_for_results, print_json, say

if TYPE_CHECKING:
    from tnlpad.records.archive import FinishedRecord, Problem
    from tnlpad.records.store import Record
    from tnlpad.report.datasets import DatasetFacts
    from tnlpad.report.write import Report

DEFAULT_RUNS = Path("runs")
DEFAULT_OUT = Path("report")
MOST_PROBLEMS_SAID = 10  # on stderr; the page lists all of them


def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]...", help="Folders of runs or of archived records, or single ones."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the report goes; report by default.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="Only this table, such as simulated. May be repeated."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep each finished run there as one small file; a report only with --out."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as one JSON document.")] = False,
) -> None:
    """Write a page, tables and figures from finished runs, beside the paper's numbers.

    Reads records only: nothing is trained, and a run without a summary counts
    as unfinished. The folder then holds index.html, tables/ (Markdown, CSV,
    LaTeX) and figures/ (SVG, PDF). Runs on other data, with other noise,
    methods or settings than the paper's get tables of their own: tables/other.
    What methods keep that pick samples is in tables/selection.

    Example: tnlpad report runs --out report
    """
    sources = runs or [DEFAULT_RUNS]
    tables = _checked_tables(table or [])
    say("Reading records.", quiet)
    records, extras, problems = _read(sources, quiet)
    document: dict[str, Any] = {"runs": len(records)}
    if archive is not None:
        document |= _archive(records, folder_for_results(archive, "--archive"), quiet)
    if archive is None or out is not None:
        folder = folder_for_results(out or DEFAULT_OUT, "--out")
        say(f"Drawing figures and tables of {len(records):,} {'run' if len(records) == 1 else 'runs'}.", quiet)
        written = _write(folder, records, extras, problems, tables, _command(sources, out, tables))
        document |= _document(written)
        _say_problems(written.problems[len(problems) :], quiet)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if document.get("refused"):
        raise typer.Exit(3)


def _checked_tables(names: Sequence[str]) -> list[str]:
    from tnlpad.report.results import TITLES
    from tnlpad.runs.settings import nearest

    for name in names:
        if name not in TITLES:
            hint = nearest(name, list(TITLES))
            fail(f"--table {name}: there is no such table{hint} There are {', '.join(TITLES)}.", code=2)
    return list(dict.fromkeys(names))


def _read(sources: Sequence[Path], quiet: bool) -> "tuple[list[FinishedRecord], dict[str, Record], list[Problem]]":
    from tnlpad.paper.cells import FIGURES
    from tnlpad.records.archive import finished_records, read_extras

    problems: list[Problem] = []
    try:
        records = finished_records(sources, problems.append)
        extras = read_extras(sources, FIGURES, problems.append)
    except OSError as error:
        fail(
            f"cannot read {error.filename} ({error.strerror or error}). Check the folder's name and permissions.",
            code=3,
        )
    _say_problems(problems, quiet and bool(records))
    if not records:
        where = ", ".join(map(str, sources))
        fail(
            f"there is no finished run to report on in {where}. Name another folder, or make some: `tnlpad reproduce "
            "smoke` takes a few minutes.",
            code=3,
        )
    return records, extras, problems


def _say_problems(problems: "Sequence[Problem]", quiet: bool) -> None:
    """What cannot be used is named; what is left out for a good reason is counted."""
    bad = [problem for problem in problems if problem.kind in ("damaged", "conflicting")]
    for problem in bad[:MOST_PROBLEMS_SAID]:
        say(f"Left out: {problem}", quiet)
    if len(bad) > MOST_PROBLEMS_SAID:
        say(f"Left out: {len(bad) - MOST_PROBLEMS_SAID} more, which the page lists.", quiet)
    counted = {
        "unfinished": "not finished yet",
        "repeated": "there twice, with the same result",
        "own": "on somebody's own data, and not in the paper's tables",
    }
    for kind, words in counted.items():
        if count := sum(problem.kind == kind for problem in problems):
            say(f"{count} {'run is' if count == 1 else 'runs are'} {words}.", quiet)


def _archive(records: "Sequence[FinishedRecord]", folder: Path, quiet: bool) -> dict[str, Any]:
    from tnlpad.records.archive import archive, write_archived
    from tnlpad.records.store import RecordError, RunFolder

    done: dict[str, list[str]] = {"archived": [], "unchanged": [], "refused": []}
    for record in records:
        if not record.source.is_dir():  # archived already
            continue
        try:
            new = write_archived(archive(RunFolder(record.source)), folder)
        except RecordError as error:
            say(f"Not archived: {error}")
            done["refused"].append(record.run_id)
        except OSError as error:
            _fail_to_write(folder, error)
        else:
            done["archived" if new else "unchanged"].append(record.run_id)
    return {"archive": str(folder), **done}


def _write(
    folder: Path,
    records: "Sequence[FinishedRecord]",
    extras: "Mapping[str, Record]",
    problems: "Sequence[Problem]",
    tables: Sequence[str],
    command: str,
) -> "Report":
    from tnlpad.report.write import write_report

    try:
        return write_report(
            folder, records, problems, tables=tables, datasets=dataset_facts(), extras=extras, command=command
        )
    except OSError as error:
        _fail_to_write(folder, error)
    except KeyboardInterrupt:
        say("Interrupted. Files written so far are whole; run the command again for the rest.")
        raise typer.Exit(130) from None


def _fail_to_write(folder: Path, error: OSError) -> NoReturn:
    fail(f"cannot write into {folder} ({error.strerror or error}). Free some space there, or name another folder.")


def dataset_facts() -> "list[DatasetFacts]":
    """Every dataset that has a recipe, from the catalogue and the recipes; neither loads torch."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.report.datasets import DatasetFacts
    from tnlpad.report.words import dataset_title, network_title
    from tnlpad.runs.recipes import C2, DATASET_DEFAULTS

    return [
        DatasetFacts(
            title=dataset_title(name),
            train_size=CATALOGUE[name].train_size,
            test_size=CATALOGUE[name].test_size,
            num_classes=CATALOGUE[name].num_classes,
            image=CATALOGUE[name].image_shape,
            network=network_title(recipe["network"]),
            batch_size=recipe["batch_size"],
            epochs=recipe["epochs"],
            c2=C2[name],
        )
        for name, recipe in DATASET_DEFAULTS.items()
    ]


def _command(sources: Sequence[Path], out: Path | None, tables: Sequence[str]) -> str:
    words = ["tnlpad", "report", *(map(str, sources) if sources != [DEFAULT_RUNS] else ())]
    words += ["--out", str(out)] if out not in (None, DEFAULT_OUT) else []
    for name in tables:
        words += ["--table", name]
    return shlex.join(words)


def _document(written: "Report") -> dict[str, Any]:
    from tnlpad.report.plain import rows
    from tnlpad.report.selection import selection_rows
    from tnlpad.report.studies import study_rows

    return {
        "page": str(written.page),
        "files": [str(path) for path in written.files],
        "tables": {table.name: rows(table) for table in written.tables if table.filled},
        "other": study_rows(written.studies),
        "selection": selection_rows(written.selection),
        "figures": {figure.name: "drawn" if figure.svg else figure.command for figure in written.figures},
        "problems": [
            {"kind": problem.kind, "path": str(problem.path), "reason": problem.reason} for problem in written.problems
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
        aside = "; runs that are in none of the paper's tables: tables/other" if document["other"] else ""
        typer.echo(f"{runs}, {tables}, {figures}{aside}")
        typer.echo(f"Report: {document['page']}")
