"""`tnlpad suspects`: list the labels of a run's data that are probably wrong, and what they should be."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import AsJson, Quiet, Root, RunArgument, Runs, read_list
from tnlpad.cli.output import fail, folder_for_results, print_json, printable, say
from tnlpad.suspects import DEFAULT_FORMATS, FORMATS

if TYPE_CHECKING:
    from tnlpad.suspects.listing import RankedRun, Suspect

MAX_ROWS_PRINTED = 20
EXIT_FINDINGS = 4
MAX_CLASSES_IN_JSON = 100


def suspects(
    run: RunArgument,
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
    runs: Runs = Path("runs"),
    root: Root = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """List the labels that are probably wrong, the most suspicious first.

    A suspect is a label that is more likely wrong than right. Each comes with
    a suggested label. Use --out to write the list and a page to review it.

    Example: tnlpad suspects RUN --top 100 --out suspects
    """
    from tnlpad.suspects.export import write_suspects

    limit, chosen = _read_limit(fail_on), _read_formats(formats, out)
    found = find_ranked_run(run, runs)
    listed = found.suspects(top)
    files: list[Path] = []
    if out is not None:
        folder = folder_for_results(out, "--out")
        try:
            files = write_suspects(folder, chosen, found, listed, root=root, warn=partial(say, quiet=quiet))
        except OSError as error:
            reason = error.strerror or error
            fail(f"cannot write into {folder} ({reason}). Free some space there, or name another folder.")
    if as_json:
        print_json(_document(found, listed, files))
    else:
        _print(found, listed, files)
    if limit is None:
        return
    if found.caution is not None:  # neither findings nor success
        fail(f"--fail-on {fail_on} cannot be decided: {found.caution}")
    if found.ranking.suspect_share >= limit:
        say(f"{100 * found.ranking.suspect_share:.2f} % of the labels are suspect (--fail-on {fail_on}).")
        raise typer.Exit(EXIT_FINDINGS)


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


def _document(found: "RankedRun", listed: "Sequence[Suspect]", files: Sequence[Path]) -> dict[str, Any]:
    from tnlpad.suspects.listing import rate_sentences

    ranking, known = found.ranking, found.caution is None
    low, high = ranking.estimate.noise_rate_interval
    small = len(found.scores.class_names) <= MAX_CLASSES_IN_JSON
    return {
        "run": str(found.folder.path),
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
            "text": " ".join(rate_sentences(ranking.estimate)) if known else None,
        },
        "transition": ranking.estimate.transition.tolist()
        if small and known and ranking.estimate.checked is None
        else None,
        "class_names": list(found.scores.class_names),
        "listed": [each.to_json() for each in listed],
        "files": [str(path) for path in files],
    }


def _print(found: "RankedRun", listed: "Sequence[Suspect]", files: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from tnlpad.suspects.listing import verdict

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
    typer.echo(verdict(found))
    for path in files:
        typer.echo(f"Written: {path}")
