"""`tnlpad predict`: what a run's network says about other data."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.find_run import find_run
from tnlpad.cli.output import fail, print_json, printable, refuse_to_overwrite, say
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own.dataset import Problem
    from tnlpad.runs.predict import Inputs, Prediction
    from tnlpad.runs.shipped import Shipped

HEADER = ("id", "path", "predicted", "probability")


def predict(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or its name.")],
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Your own data, labels not needed, or a dataset's name: its test part."),
    ],
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What the paths in a table of images are relative to.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A table's column of classes, not looked at; the run's by default."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .csv file; by default the rows go to stdout.")
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders lie.")] = Path("runs"),
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the predictions as one JSON document.")] = False,
) -> None:
    """Predict the class of every sample, with σ of the chosen epoch.

    Of a table of numbers the columns that were trained on are taken by their
    names, and others are ignored.

    Example: tnlpad predict RUN photographs --out predictions.csv
    """
    from tnlpad.errors import DataError
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError

    if out is not None and (out.is_dir() or out.suffix.lower() != ".csv"):
        fail(f"--out {out}: name a file that ends in .csv.", code=2)
    if out is not None:
        refuse_to_overwrite(out, data, "--out")
    folder = find_run(run, runs)
    say("Loading torch.", quiet)
    from tnlpad.runs.predict import predictions
    from tnlpad.runs.shipped import load_shipped

    try:
        shipped = load_shipped(folder)
        classes = label if label is not None else (read_data_file(folder.path) or {}).get("label_column")
        inputs, left_out = _inputs(data, images, classes, shipped, root, quiet)
        with progress_reporter(quiet) as reporter:
            found = list(predictions(shipped, inputs, reporter))
    except (RecordError, DataError, ValueError) as error:
        fail(str(error), code=3)
    if out is not None:
        _write(out, found)
    _print(found, left_out, out, as_json)


def _write(out: Path, found: "list[Prediction]") -> None:
    from tnlpad.suspects.export import write_rows

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_rows(out, HEADER, ([getattr(each, name) for name in HEADER] for each in found))
    except OSError as error:
        fail(f"cannot write {out} ({error.strerror or error}). Free some space there, or name another file.")


def _print(found: "list[Prediction]", left_out: "Sequence[Problem]", out: Path | None, as_json: bool) -> None:
    if as_json:
        document = {"predictions": [asdict(each) for each in found], "left_out": [asdict(each) for each in left_out]}
        print_json(document | {"file": str(out) if out else None})
    elif out is not None:
        typer.echo(f"{len(found):,} predictions: {out}")
    else:
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([getattr(each, name) for name in HEADER] for each in found)
        typer.echo(text.getvalue(), nl=False)


def _inputs(
    data: str, images: Path | None, label: str | None, shipped: "Shipped", root: Path | None, quiet: bool
) -> "tuple[Inputs, Sequence[Problem]]":
    """What to predict on, and what of it cannot be."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import open_dataset
    from tnlpad.runs.predict import inputs_of_catalogue, inputs_of_own, wanted_columns

    if data in CATALOGUE:
        return inputs_of_catalogue(CATALOGUE[data].images_of or data, shipped, root), ()
    with progress_reporter(quiet) as reporter:
        own = open_dataset(
            data, images=images, label=label, labelled=False, columns=wanted_columns(shipped), reporter=reporter
        )
    for note in own.notes:
        say(f"Note: {printable(note)}", quiet)
    if own.problems:
        first = printable(f"{own.problems[0].id[:200]}: {own.problems[0].reason}")
        say(f"{len(own.problems):,} samples are left out, such as {first}.", quiet)
    return inputs_of_own(own, shipped), own.problems
