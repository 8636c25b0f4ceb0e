"""`tnlpad clean`: write the data of a run with the labels that are probably wrong corrected or dropped."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import AsJson, Quiet, RunArgument, Runs, table_options
from tnlpad.cli.output import fail, print_json, refuse_to_overwrite, say
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.suspects.clean import Cleaned, Form
    from tnlpad.suspects.listing import RankedRun


def clean(
    run: RunArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="File to write: .csv, .tsv or .txt; .npz if the images came from an .npz file; .parquet if they came "
            "from a Parquet table.",
        ),
    ],
    action: Annotated[
        Literal["correct", "drop"],
        typer.Option(help="Replace a label that is probably wrong by the suggested one, or drop the sample."),
    ] = "correct",
    confidence: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Change labels that are wrong with at least this probability, a share or a percentage (default: 0.9).",
        ),
    ] = None,
    review: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Decisions saved from the page of suspects; they override the suggestions."),
    ] = None,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write all samples with the probably wrong labels corrected or dropped.

    The original label stays beside the new one, in original_label. The test
    split is not changed. Tables keep their columns; CSV files keep their
    encoding and separator. `tnlpad train` reads the file.
    If the model is too weak to estimate which labels are wrong, only the labels
    in --review are changed, unless you give --confidence.

    Example: tnlpad clean RUN --out manifest.csv --confidence 0.9
    """
    from tnlpad.errors import DataError
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.clean import FORMS, clean_samples, form_of, min_confidence, read_review, write_cleaned
    from tnlpad.suspects.listing import MOVED

    known = sorted({suffix for suffixes, _ in FORMS.values() for suffix in suffixes})
    if out.is_dir() or out.suffix.lower() not in known:
        fail(f"--out {out}: name a file that ends in {', '.join(known)}.", code=2)
    probability = _read_probability(confidence)
    found = find_ranked_run(run, runs)
    _check_review(found, probability, review, quiet)
    try:
        decisions = read_review(review, found.names.ids) if review is not None else None
        kept = clean_samples(found, action=action, confidence=probability, review=decisions)
    except RecordError as error:
        fail(str(error), code=3)
    for source in (found.about.get("path"), review):
        if source is not None:
            refuse_to_overwrite(out, source, "--out")
    form = form_of(found, kept)
    _check_suffix(out, *FORMS[form])
    if form in ("paths", "manifest") and not any(os.path.exists(row.path or "") for row in kept):
        fail(f"{found.about['path']} is gone, or its images are, such as {kept[0].path}. {MOVED}", code=3)
    try:
        data = _open_data(found, quiet) if form not in ("paths", "manifest", "ids") else None
        write_cleaned(out, form, found, kept, data)
    except DataError as error:
        fail(str(error), code=3)
    except OSError as error:
        fail(f"cannot write {out} ({error.strerror or error}). Free some space there, or name another file.")
    _warn(found, kept, min_confidence(found, probability), form, quiet)
    _print_counts(out, kept, found, _next_command(out, form, found, kept), quiet, as_json)


def _read_probability(text: str | None) -> float | None:
    if text is None:
        return None
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (1 if number == text.strip() else 100)
    except ValueError:
        share = -1
    if not 0.5 <= share <= 1:
        fail(f"--confidence {text}: write a share from 0.5 to 1, such as 0.9, or a percentage, such as 90%.", code=2)
    return share


def _check_review(found: "RankedRun", probability: float | None, review: Path | None, quiet: bool) -> None:
    """Require an existing review, and a review or a probability where the ranking has a caution."""
    if review is not None and not review.exists():
        fail(f"--review {review} does not exist. Give the review.csv that the page saved.", code=3)
    if found.caution is None:
        return
    if probability is not None:
        say(f"Caution: {found.caution}", quiet)
    elif review is None:
        fail(
            f"{found.caution} No label was changed. Review the suspects and pass your decisions with --review, or give "
            "--confidence."
        )


def _check_suffix(out: Path, suffixes: Sequence[str], reason: str) -> None:
    if out.suffix.lower() in suffixes:
        return
    *others, last = suffixes
    allowed = f"{', '.join(others)} or {last}" if others else last
    fail(f"--out {out}: {reason}. Name a {allowed} file.", code=2)


def _open_data(found: "RankedRun", quiet: bool) -> "OwnDataset":
    with progress_reporter(quiet) as reporter:
        return found.open_data(reporter)


def _warn(found: "RankedRun", kept: "Sequence[Cleaned]", confidence: float, form: "Form", quiet: bool) -> None:
    """Print what to know before training on the file."""
    if confidence < 1 and not any(row.changed for row in kept) and len(found.scores) <= len(kept):
        highest = max(row.confidence or 0 for row in kept)
        say(f"No label is wrong with a probability of {confidence:.0%}; the highest is {highest:.0%}.", quiet)
    labels = {row.label for row in kept}
    if new := sorted(labels - set(found.scores.class_names)):
        say(f"The review adds {len(new)} classes that the data do not have, such as {new[0][:80]!r}.", quiet)
    given = {found.scores.class_names[label] for label in set(found.scores.columns["given"].tolist())}
    if lost := sorted(given - labels):
        say(f"No sample is left of {len(lost)} classes, such as {lost[0][:80]!r}.", quiet)
    if unused := len(found.about.get("left_out", ())):
        fate = "stay as they are" if form in ("table", "manifest") else "are not in the file"
        say(f"{unused:,} samples that could not be trained on {fate}.", quiet)


def _next_command(out: Path, form: "Form", found: "RankedRun", kept: "Sequence[Cleaned]") -> str | None:
    """Return the command that trains on the file; None for labels by id."""
    from tnlpad.suspects.clean import images_option

    if form == "ids":
        return None
    command = ["tnlpad", "train", str(out)]
    if form in ("table", "manifest", "pictures"):
        command += table_options(found.about.get("label_column"), found.about.get("ignored", ()))
    if (images := images_option(out, form, found, kept)) is not None:
        command += ["--images", str(images)]
    return shlex.join(command)


def _print_counts(
    out: Path, kept: "Sequence[Cleaned]", found: "RankedRun", command: str | None, quiet: bool, as_json: bool
) -> None:
    total = len(found.scores) + sum(row.split == "test" for row in kept)
    corrected, dropped = sum(row.changed for row in kept), total - len(kept)
    if as_json:
        counts = {"samples": total, "kept": len(kept), "corrected": corrected, "dropped": dropped}
        print_json({"file": str(out), **counts, "next": command})
        return
    lost = f", {dropped:,} dropped" if dropped else ""
    typer.echo(f"{len(kept):,} of {total:,} samples kept{lost}, {corrected:,} labels corrected: {out}")
    if command is not None:
        say(f"Next: {command}", quiet)
    else:
        say("The file holds labels by id, without the samples: `tnlpad train` cannot read it.", quiet)
