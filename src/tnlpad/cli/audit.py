"""`tnlpad audit`: check a random sample of labels, and get the share of wrong labels with an interval."""

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import AsJson, Quiet, Root, RunArgument, Runs, SpreadsheetSafe
from tnlpad.cli.output import exit_codes, fail, folder_for_results, print_json, printable, say, way_out, write_text
from tnlpad.spreadsheets import Formulas

if TYPE_CHECKING:
    from tnlpad.suspects.audit import By, Sample
    from tnlpad.suspects.audited_run import Audit
    from tnlpad.suspects.listing import RankedRun

DEFAULT_SAMPLE = 100
MAX_CLASSES_PRINTED = 30


def audit(
    run: RunArgument,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of labels to draw (default: 100). A larger number extends an earlier sample.",
        ),
    ] = None,
    by: Annotated[
        Literal["random", "class", "confidence"] | None,
        typer.Option(
            help="Draw from all labels alike, more from rare classes, or more where the model is unsure "
            "(default: random)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed (default: 1).")] = None,
    review: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Decisions saved from the page. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the sample and its page (default: audit in the run folder, which `tnlpad suspects` and "
            "`tnlpad clean` read).",
        ),
    ] = None,
    runs: Runs = Path("runs"),
    root: Root = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the share of wrong labels from a sample that you check.

    First draw a sample, open the page, and decide for each label whether it is
    right. Then pass the saved decisions with --review. The share of wrong
    labels comes with a 95 % interval that holds for every kind of error. The
    confidence in each label is recalibrated with your decisions.

    Example: tnlpad audit RUN --sample 100
    """
    from tnlpad.suspects.audit_files import DECISIONS_FILE, FOLDER

    if review and (sample, by, seed) != (None, None, None):
        fail("--sample, --by and --seed draw labels, and --review reads decisions: give one or the other.", code=2)
    for path in review or ():
        if not path.exists():
            fail(f"--review {path} does not exist. Give the {DECISIONS_FILE} that the page saved.", code=3)
    found = find_ranked_run(run, runs)
    folder = out if out is not None else found.folder.path / FOLDER
    command = shlex.join(["tnlpad", "audit", str(found.folder.path), *(["--out", str(out)] if out is not None else [])])
    saved = folder / DECISIONS_FILE
    if not review and (sample, by, seed) == (None, None, None) and saved.exists():
        review = [saved]
        say(f"Decisions: {saved}", quiet)
    if review:
        _rate(found, folder, review, command, as_json)
    else:
        _draw(found, folder, sample, by, seed, root, command, Formulas(safe=spreadsheet_safe), quiet, as_json)


# Drawing --------------------------------------------------------------------------------------------------------------


def _draw(
    found: "RankedRun",
    folder: Path,
    size: int | None,
    by: "By | None",
    seed: int | None,
    root: Path | None,
    command: str,
    formulas: Formulas,
    quiet: bool,
    as_json: bool,
) -> None:
    from tnlpad.suspects.audit_files import DECISIONS_FILE, PAGE_FILE, TABLE_FILE, token, write_sample
    from tnlpad.suspects.page import DRAWN, audit_page

    with exit_codes():
        sample = _sample(found, folder, size, by, seed)
    folder_for_results(folder, "--out")
    next_command = f"{command} --review {DECISIONS_FILE}"
    page = audit_page(
        found,
        sample,
        token(found, sample),
        command=next_command,
        file=DECISIONS_FILE,
        root=root,
        warn=partial(say, quiet=quiet),
    )
    try:
        files = write_sample(folder, found, sample, formulas)
    except OSError as error:
        fail(f"cannot write into {folder} ({error.strerror or error}). {way_out(error, 'another folder')}")
    write_text(folder / PAGE_FILE, page)
    if note := formulas.note(folder / TABLE_FILE, "tnlpad audit"):
        say(f"Note: {note}", quiet)
    if as_json:
        print_json(
            {
                "run": str(found.folder.path),
                "by": sample.by,
                "seed": sample.seed,
                "drawn": len(sample),
                "labels": sample.total,
                "ids": [found.names.ids[row] for row in sample.rows.tolist()],
                "files": [str(path) for path in (folder / PAGE_FILE, *files)],
            }
        )
        return
    typer.echo(f"Drew {len(sample):,} of {sample.total:,} labels {DRAWN[sample.by]} (seed {sample.seed}).")
    typer.echo(f"Page: {folder / PAGE_FILE}")
    say(f"Open the page, decide on every label and save your decisions. Then: {next_command}", quiet)


def _sample(found: "RankedRun", folder: Path, size: int | None, by: "By | None", seed: int | None) -> "Sample":
    """Return the sample of the folder, extended if needed, or draw one."""
    from tnlpad.suspects.audit_files import read_sample
    from tnlpad.suspects.audited_run import draw_from_run, extended

    present = read_sample(folder, found)
    labels = len(found.scores)
    if size is not None and size > labels:
        fail(f"--sample {size}: the run has {labels:,} labels. Draw at most that many.", code=2)
    if present is None:
        wanted = min(DEFAULT_SAMPLE, labels) if size is None else size
        return draw_from_run(found, wanted, by=by or "random", seed=1 if seed is None else seed)
    if by not in (None, present.by) or seed not in (None, present.seed):
        fail(
            f"{folder} has a sample of {len(present):,} labels by {present.by} with seed {present.seed}. Leave --by "
            "and --seed out to continue it, or draw another one into --out FOLDER.",
            code=2,
        )
    return extended(present, len(present) if size is None else size, found)


# Results --------------------------------------------------------------------------------------------------------------


def _rate(found: "RankedRun", folder: Path, review: Sequence[Path], command: str, as_json: bool) -> None:
    from tnlpad.suspects.audit_files import FOLDER, read_decisions, read_sample, write_audit
    from tnlpad.suspects.audited_run import audit_run

    with exit_codes():
        sample = read_sample(folder, found)
        if sample is None:
            fail(f"{folder} has no sample yet. Draw one with `{command} --sample {DEFAULT_SAMPLE}`.", code=3)
        result = audit_run(found, read_decisions(review, found, sample), sample)
    try:
        written = write_audit(folder, result)
    except OSError as error:
        fail(f"cannot write into {folder} ({error.strerror or error}). {way_out(error, 'another folder with --out')}")
    if as_json:
        print_json(result.to_json() | {"run": str(found.folder.path), "files": [str(written)]})
        return
    for sentence in sentences(result, command):
        typer.echo(sentence)
    _print_classes(result)
    typer.echo(f"Written: {written}")
    own = found.folder.path / FOLDER
    if os.path.realpath(folder) == os.path.realpath(own):
        typer.echo("`tnlpad suspects` and `tnlpad clean` use these decisions from now on.")
    else:
        typer.echo(f"`tnlpad suspects` and `tnlpad clean` use an audit in {own} alone.")


def sentences(result: "Audit", command: str) -> list[str]:
    """Return the result in words.

    Args:
        result: The audit.
        command: The command that continues it, without `--sample`.
    """
    rate = result.rate
    said = [
        f"Checked {rate.checked:,} of {result.drawn:,} drawn labels: {rate.wrong:,} wrong, "
        f"{rate.checked - rate.wrong:,} right."
    ]
    if rate.undecided:
        said.append(
            f"{_labels(rate.undecided)} without a decision {'is' if rate.undecided == 1 else 'are'} left out. If you "
            "skipped the hard ones, the share is off: decide on them too."
        )
    share = rate.share
    said.append(
        f"Share of wrong labels among all {result.total:,}: {100 * share.estimate:.1f} % (95 % interval "
        f"{100 * share.low:.1f} to {100 * share.high:.1f} %)."
    )
    if rate.with_unsure is not None:
        low, high = rate.with_unsure
        said.append(
            f"{_labels(rate.unsure)} marked not sure {'is' if rate.unsure == 1 else 'are'} left out. Counted as right "
            f"or as wrong, the interval is {100 * low:.1f} to {100 * high:.1f} %."
        )
    before, after = result.mean_confidence
    said.append(
        f"Recalibrated: the mean confidence that a label is wrong goes from {100 * before:.1f} to {100 * after:.1f} %."
    )
    if more := rate.checks_to_halve:
        size = min(result.drawn + max(0, more - rate.undecided), result.total)
        way = f"{command} --sample {size}" if size > result.drawn else "decide on labels that are drawn already."
        said.append(f"About {more:,} more checks would halve the interval: {way}")
    return said


def _labels(count: int) -> str:
    return f"{count:,} label{'' if count == 1 else 's'}"


def _print_classes(result: "Audit") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    classes: Sequence[Any] = sorted(result.rate.classes, key=lambda each: -each.labels)
    if len(classes) < 2:
        return
    table = Table(title="By given label", title_justify="left")
    for heading in ("given", "labels", "checked", "wrong", "share wrong, %", "interval, %"):
        table.add_column(heading, justify="left" if heading == "given" else "right", overflow="fold")
    for each in classes[:MAX_CLASSES_PRINTED]:
        share = each.share
        table.add_row(
            escape(printable(result.class_names[each.label])),
            *(f"{count:,}" for count in (each.labels, each.checked, each.wrong)),
            f"{100 * share.estimate:.1f}",
            f"{100 * share.low:.1f} to {100 * share.high:.1f}",
        )
    Console().print(table)
    if len(classes) > MAX_CLASSES_PRINTED:
        typer.echo(f"{len(classes) - MAX_CLASSES_PRINTED:,} more classes: use --json.")
