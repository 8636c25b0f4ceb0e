"""`tnlpad suspects`: list the labels that are probably wrong, of a run or by the predictions of any other model."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import AsJson, Quiet, Root, Runs, SpreadsheetSafe, read_list
from tnlpad.cli.output import exit_codes, fail, folder_for_results, print_json, printable, say, way_out
from tnlpad.suspects import DEFAULT_FORMATS, FORMATS

if TYPE_CHECKING:
    from tnlpad.suspects.from_probabilities import Found
    from tnlpad.suspects.listing import RankedRun, Suspect

MAX_ROWS_PRINTED = 20
EXIT_FINDINGS = 4
MAX_CLASSES_IN_JSON = 100
PAGE = "html"

prediction_option = partial(typer.Option, rich_help_panel="Predictions of any model, instead of RUN")


def suspects(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A finished run: its folder, its name or hash, the start of one, or latest (see tnlpad runs).",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Show the N most suspicious labels (default: all that are more likely wrong than right).",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the list to files in this folder.")] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="LIST",
            help=f"Comma-separated output formats: {', '.join(FORMATS)} (default: {','.join(DEFAULT_FORMATS)}).",
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="N%",
            help="Exit with code 4 if at least this share of the labels is suspect, and with 1 if the model is too "
            "weak to tell.",
        ),
    ] = None,
    probabilities: Annotated[
        Path | None,
        prediction_option(
            metavar="FILE",
            help="Probabilities, a row per sample and a column per class: .npy, .npz or .csv. They must be out of "
            "sample: of models that were not trained on the sample's label.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        prediction_option(metavar="FILE", help="The given labels: .csv with a label column, .txt, .npy or .npz."),
    ] = None,
    features: Annotated[
        Path | None,
        prediction_option(
            metavar="FILE",
            help="Numbers that describe the samples: .npy, .npz or .csv. The nearest samples then vote on each label.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        prediction_option(metavar="COLUMN", help="Name of the label column in the .csv file (default: label)."),
    ] = None,
    runs: Runs = Path("runs"),
    root: Root = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """List the labels that are probably wrong, the most suspicious first.

    A suspect is a label that is more likely wrong than right. Each comes with
    a suggested label. Use --out to write the list and a page to review it.

    Example: tnlpad suspects RUN --top 100 --out suspects

    For another model: tnlpad suspects --probabilities p.npy --labels y.csv
    """
    from tnlpad.suspects.export import write_suspects
    from tnlpad.suspects.listing import verdict

    limit, chosen = _read_limit(fail_on), _read_formats(formats, out)
    found: RankedRun | Found
    if probabilities is None:
        found = find_ranked_run(_only_run(run, labels, features, label), runs)
        listed, said = found.suspects(top), verdict(found)
    else:
        found = _find_in_files(run, probabilities, labels, features, label)
        listed, said = found.listed(top), found.verdict
        if PAGE in chosen and formats is not None:
            fail(f"--format {PAGE}: the page shows samples, which only a RUN has. Choose another format.", code=2)
        chosen = [name for name in chosen if name != PAGE]
    files: list[Path] = []
    if out is not None:
        folder = folder_for_results(out, "--out")
        try:
            warn = partial(say, quiet=quiet)
            files = write_suspects(
                folder, chosen, found, listed, root=root, warn=warn, spreadsheet_safe=spreadsheet_safe
            )
        except OSError as error:
            reason = error.strerror or error
            fail(f"cannot write into {folder} ({reason}). {way_out(error, 'another folder')}")
    if as_json:
        print_json(_document(found, listed, files))
    else:
        _print(found, listed, said, files)
    if limit is None:
        return
    if found.caution is not None:  # neither findings nor success
        fail(f"--fail-on {fail_on} cannot be decided: {found.caution}")
    if found.ranking.suspect_share >= limit:
        say(f"{100 * found.ranking.suspect_share:.2f} % of the labels are suspect (--fail-on {fail_on}).")
        raise typer.Exit(EXIT_FINDINGS)


def _only_run(run: str | None, labels: Path | None, features: Path | None, label: str | None) -> str:
    """Return the RUN; exit with code 2 if there is none, or options of predictions beside it."""
    others = {"--labels": labels, "--features": features, "--label": label}
    for option, value in others.items():
        if value is not None:
            fail(f"{option} {value} needs the predictions for these samples: add --probabilities FILE.", code=2)
    if run is None:
        fail("there is nothing to list. Give a RUN, or --probabilities FILE and --labels FILE.", code=2)
    return run


def _find_in_files(
    run: str | None, probabilities: Path, labels: Path | None, features: Path | None, label: str | None
) -> "Found":
    if run is not None:
        fail(f"RUN {run} and --probabilities {probabilities} are two sources. Leave one out.", code=2)
    if labels is None:
        fail(f"--probabilities {probabilities} needs the given labels: add --labels FILE.", code=2)
    from tnlpad.suspects.prediction_files import find_in_files

    with exit_codes():
        return find_in_files(probabilities, labels, features, label)


def _read_limit(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1
    if not 0 < percent <= 100:
        fail(f"--fail-on {text}: write a percentage above 0 and up to 100, such as 5%.", code=2)
    if percent < 1 and "%" not in text:  # --confidence takes a share such as 0.05
        fail(f"--fail-on {text}: is that {percent:g}% or {100 * percent:g}%? Write it with the percent sign.", code=2)
    return percent / 100


def _read_formats(text: str | None, out: Path | None) -> list[str]:
    if text is None:
        return list(DEFAULT_FORMATS)
    if out is None:
        fail("--format needs a folder to write to: add --out FOLDER.", code=2)
    names = read_list(text)
    if unknown := [name for name in names or [text] if name not in FORMATS]:
        fail(f"--format {unknown[0]}: choose from {', '.join(FORMATS)}.", code=2)
    return list(dict.fromkeys(names))


def _document(found: "RankedRun | Found", listed: "Sequence[Suspect]", files: Sequence[Path]) -> dict[str, Any]:
    from tnlpad.suspects.listing import RankedRun, rate_sentences

    ranking, known = found.ranking, found.caution is None
    audit = "tnlpad audit RUN" if isinstance(found, RankedRun) else None
    low, high = ranking.estimate.noise_rate_interval
    small = len(found.scores.class_names) <= MAX_CLASSES_IN_JSON
    return {
        "run": str(found.folder.path) if isinstance(found, RankedRun) else None,
        "samples": len(ranking.order),
        "suspects": ranking.suspects,
        "suspect_share": ranking.suspect_share,
        "caution": found.caution,
        "notes": list(found.notes),
        "noise_rate": {
            "estimate": ranking.estimate.noise_rate if known else None,
            "low": low if known else None,
            "high": high if known else None,
            "random_only": ranking.estimate.random_only,
            "text": " ".join(rate_sentences(ranking.estimate, audit)) if known else None,
        },
        "transition": ranking.estimate.transition.tolist()
        if small and known and ranking.estimate.checked is None
        else None,
        "class_names": list(found.scores.class_names),
        "listed": [each.to_json() for each in listed],
        "files": [str(path) for path in files],
    }


def _print(found: "RankedRun | Found", listed: "Sequence[Suspect]", said: str, files: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = "Suspect labels" if found.caution is None else "Labels"
    table = Table(title=f"{title}, the most suspicious first", title_justify="left")
    headings = ("#", "sample", "given", "suggested", *(("wrong, %",) if found.caution is None else ()))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("#", "wrong, %") else "left", overflow="fold")
    for each in listed[:MAX_ROWS_PRINTED]:
        names = (escape(printable(text)) for text in (each.id, each.given_name, each.suggested_name))
        table.add_row(*(str(each.rank), *names, str(int(100 * each.confidence)))[: len(headings)])
    if listed:
        Console().print(table)
    if len(listed) > MAX_ROWS_PRINTED:
        typer.echo(f"{len(listed) - MAX_ROWS_PRINTED:,} more" + ("." if files else ": write them with --out FOLDER."))
    typer.echo(said)
    for path in files:
        typer.echo(f"Written: {path}")
