"""`tnlpad suspects`: which labels of a run's data are probably wrong, and what they should be."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import judged_run
from tnlpad.cli.output import fail, folder_for_results, print_json, printable, say
from tnlpad.suspects import DEFAULT_FORMATS, FORMATS

if TYPE_CHECKING:
    from tnlpad.suspects.listing import JudgedSamples, Suspect

ROWS_PRINTED = 20
EXIT_FINDINGS = 4
MOST_CLASSES_IN_JSON = 100


def suspects(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or its name.")],
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="So many; by default all that are more likely wrong than right."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write files there.")] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="LIST", help=f"Of {', '.join(FORMATS)}; {','.join(DEFAULT_FORMATS)} by default."
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="N%",
            help="Exit with code 4 if at least this share of all labels is suspect, with 1 if that cannot be told.",
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders lie.")] = Path("runs"),
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie, for pictures.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
) -> None:
    """List the labels that are probably wrong, the most suspicious first.

    A suspect is a label that is more likely wrong than right and has a better
    one to suggest. The pages and files are written with --out.

    Example: tnlpad suspects RUN --top 100 --out suspects
    """
    from tnlpad.suspects.export import write_suspects

    limit, wanted = _share(fail_on), _formats(formats, out)
    found = judged_run(run, runs)
    listed = found.suspects(top)
    files: list[Path] = []
    if out is not None:
        folder = folder_for_results(out, "--out")
        try:
            files = write_suspects(folder, wanted, found, listed, own=None, root=root, warn=partial(say, quiet=quiet))
        except OSError as error:
            reason = error.strerror or error
            fail(f"cannot write into {folder} ({reason}). Free some space there, or name another folder.")
    if as_json:
        print_json(_document(found, listed, files))
    else:
        _print(found, listed, files)
    if limit is not None:
        _gate(found, limit, f"--fail-on {fail_on}")


def _gate(found: "JudgedSamples", limit: float, option: str) -> None:
    """End with the code of findings; neither that nor success where a weak network knows nothing about the labels."""
    if (warning := found.caution) is not None:
        fail(f"{option} cannot be decided: {warning}")
    if found.ranking.suspect_share >= limit:
        say(f"{100 * found.ranking.suspect_share:.2f} % of the labels are suspect: {option}.")
        raise typer.Exit(EXIT_FINDINGS)


def _share(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1
    if not 0 < percent <= 100:
        fail(f"--fail-on {text}: write a percentage above 0 and up to 100, such as 5%.", code=2)
    if percent < 1 and "%" not in text:  # elsewhere a share is 0.05
        fail(f"--fail-on {text}: is that {percent:g}% or {100 * percent:g}%? Write it with the percent sign.", code=2)
    return percent / 100


def _formats(text: str | None, out: Path | None) -> list[str]:
    if text is not None and out is None:
        fail("--format says what to write, but not where: add --out FOLDER.", code=2)
    names = [name.strip() for name in text.split(",") if name.strip()] if text is not None else list(DEFAULT_FORMATS)
    if unknown := [name for name in names if name not in FORMATS]:
        fail(f"--format {unknown[0]}: choose of {', '.join(FORMATS)}.", code=2)
    if not names:
        fail(f"--format is empty: choose of {', '.join(FORMATS)}.", code=2)
    return list(dict.fromkeys(names))


def _document(found: "JudgedSamples", listed: "Sequence[Suspect]", files: Sequence[Path]) -> dict[str, Any]:
    ranking = found.ranking
    low, high = ranking.estimate.noise_rate_interval
    small = len(found.scores.class_names) <= MOST_CLASSES_IN_JSON
    return {
        "run": str(found.folder.path),
        "samples": len(ranking.order),
        "suspects": ranking.suspects,
        "suspect_share": ranking.suspect_share,
        "caution": found.caution,
        "noise_rate": {"estimate": ranking.estimate.noise_rate, "low": low, "high": high},
        "transition": ranking.estimate.transition.tolist() if small else None,
        "class_names": list(found.scores.class_names),
        "listed": [each.to_json() for each in listed],
        "files": [str(path) for path in files],
    }


def _print(found: "JudgedSamples", listed: "Sequence[Suspect]", files: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from tnlpad.suspects.export import verdict

    warning = found.caution
    table = Table(title="Suspect labels, the most suspicious first", title_justify="left")
    headings = ("#", "sample", "given", "suggested", *(("wrong, %",) if warning is None else ()))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("#", "wrong, %") else "left", overflow="fold")
    for each in listed[:ROWS_PRINTED]:
        names = (escape(printable(text)) for text in (each.id, each.given_name, each.suggested_name))
        table.add_row(*(str(each.rank), *names, str(int(100 * each.confidence)))[: len(headings)])
    if listed:
        Console().print(table)
    if len(listed) > ROWS_PRINTED:
        typer.echo(f"{len(listed) - ROWS_PRINTED:,} more" + ("." if files else ": write them with --out FOLDER."))
    typer.echo(verdict(found))
    for path in files:
        typer.echo(f"Written: {path}")
