"""`tnlpad predict`: predict the classes of other data with the network of a run."""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import find_run
from tnlpad.cli.options import (
    AsJson,
    Cache,
    ImagesFolder,
    Quiet,
    Root,
    RunArgument,
    Runs,
    SpreadsheetSafe,
    cache_folder,
)
from tnlpad.cli.output import fail, print_json, printable, refuse_to_overwrite, say, way_out
from tnlpad.cli.progress import progress_reporter
from tnlpad.spreadsheets import Formulas

if TYPE_CHECKING:
    from tnlpad.data.own.dataset import Problem
    from tnlpad.runs.predict import Inputs, Prediction
    from tnlpad.runs.shipped import Shipped

PREDICTED = ("predicted", "probability")


def predict(
    run: RunArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Your own data, labels not needed, or the name of a dataset for its test part."
        ),
    ],
    images: ImagesFolder = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Label column of a table, which is ignored (default: the run's)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a .csv file (default: print the rows).")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Give the K most probable classes (default: the first alone)."),
    ] = None,
    runs: Runs = Path("runs"),
    root: Root = None,
    cache: Cache = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every sample with the robust weights of a run.

    From a table of numbers, the columns that the run was trained on are taken
    by name, and others are ignored.

    Example: tnlpad predict RUN photographs --out predictions.csv
    """
    from tnlpad.errors import DataError
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.store import RecordError

    if out is not None:
        if out.is_dir() or out.suffix.lower() != ".csv":
            fail(f"--out {out}: name a file that ends in .csv.", code=2)
        refuse_to_overwrite(out, data, "--out")
    folder = find_run(run, runs)
    say("Loading torch.", quiet)
    from tnlpad.runs.predict import predictions
    from tnlpad.runs.shipped import load_shipped

    try:
        shipped = load_shipped(folder)
        if (classes := len(shipped.class_names)) < (top or 1):
            fail(f"--top {top}: the run has {classes} classes. Give a number from 1 to {classes}.", code=2)
        about = read_data_file(folder.path) or {}
        ignored = label if label is not None else about.get("label_column")
        inputs, left_out = _inputs(
            data, images, ignored, about.get("id_column"), shipped, root, cache_folder(cache), quiet
        )
        with progress_reporter(quiet, samples=True) as reporter:
            found = list(predictions(shipped, inputs, reporter, top=top or 1))
    except (RecordError, DataError, ValueError) as error:
        fail(str(error), code=3)
    header, rows = _table(found, top)
    formulas = Formulas(safe=spreadsheet_safe)
    rows = formulas.passed(rows)
    if out is not None:
        _write(out, header, rows)
    if as_json:
        listed = [_document(each, top) for each in found]
        document = {"predictions": listed, "left_out": [asdict(each) for each in left_out]}
        print_json(document | {"file": str(out) if out else None})
    elif out is not None:
        typer.echo(f"{len(found):,} predictions: {out}")
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    if note := formulas.note(out or "The table", "tnlpad predict"):
        say(f"Note: {note}", quiet)


def _table(found: "Sequence[Prediction]", top: int | None) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """Return the header of the table and its rows; with `top`, each class has its own columns."""
    columns = [f"{name}_{rank}" for rank in range(1, top + 1) for name in PREDICTED] if top else list(PREDICTED)
    rows = (
        [each.id, each.path, *chain.from_iterable(zip(each.predicted, each.probability, strict=True))] for each in found
    )
    return ["id", "path", *columns], rows


def _document(prediction: "Prediction", top: int | None) -> dict[str, Any]:
    """Return plain data for JSON: lists with `top`, else one class."""
    plain = asdict(prediction)
    return plain if top else plain | {name: plain[name][0] for name in PREDICTED}


def _write(out: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from tnlpad.suspects.export import write_rows

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_rows(out, header, rows)
    except OSError as error:
        fail(f"cannot write {out} ({error.strerror or error}). {way_out(error, 'another file')}")


def _inputs(
    data: str,
    images: Path | None,
    label: str | None,
    id: str | None,
    shipped: "Shipped",
    root: Path | None,
    cache: Path,
    quiet: bool,
) -> "tuple[Inputs, Sequence[Problem]]":
    """Open the samples to predict, and return those that cannot be used as well."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import open_dataset
    from tnlpad.runs.predict import inputs_of_catalogue, inputs_of_own, reading_options

    if data in CATALOGUE:
        return inputs_of_catalogue(CATALOGUE[data].images_of or data, shipped, root), ()
    with progress_reporter(quiet) as reporter:
        own = open_dataset(
            data, images=images, label=label, id=id, labelled=False, reporter=reporter, **reading_options(shipped)
        )
    for note in own.notes:
        say(f"Note: {printable(note)}", quiet)
    if own.features is not None and own.columns != shipped.columns:
        say("Note: columns are taken in their order, since those of the run or of these data have no names.", quiet)
    if left_out := len(own.problems):
        first = printable(f"{own.problems[0].id[:200]}: {own.problems[0].reason}")
        say(f"Left out: {left_out:,} of {left_out + len(own.ids):,} samples, such as {first}.", quiet)
    with progress_reporter(quiet, samples=True) as reporter:
        return inputs_of_own(own, shipped, cache=cache, reporter=reporter), own.problems
