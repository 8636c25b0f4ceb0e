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
    from tnlpad.suspects.clean import Cleaned, Cleaning
    from tnlpad.suspects.cleaned_files import Form
    from tnlpad.suspects.listing import RankedRun
    from tnlpad.suspects.review import Review

MAX_CLASSES_NAMED = 5


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
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Change the N most suspicious labels instead, however sure the model is."
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
    encoding and separator. `tnlpad train` reads the file. Decisions of an audit
    are used. Classes with fewer than 5 samples are left alone.
    If the model is too weak to estimate which labels are wrong, only the labels
    in --top or --review are changed.

    Example: tnlpad clean RUN --out manifest.csv --confidence 0.9
    """
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.clean import clean_samples
    from tnlpad.suspects.cleaned_files import form_of
    from tnlpad.suspects.review import read_review

    probability = _read_probability(confidence)
    _check_options(out, probability, top, review)
    found = find_ranked_run(run, runs)
    if found.caution is not None:
        say(f"Caution: {found.caution}", quiet)
        if top is None and probability is None and review is None and not found.ranking.decisions:
            fail(_ways_out(found))
    try:
        decisions = read_review(review, found.names.ids) if review is not None else None
    except RecordError as error:
        fail(str(error), code=3)
    cleaning = clean_samples(found, action=action, confidence=probability, top=top, review=decisions)
    for source in (found.about.get("path"), review):
        if source is not None:
            refuse_to_overwrite(out, source, "--out")
    form = form_of(found, cleaning.kept)
    _write(out, form, found, cleaning.kept, quiet)
    _warn(found, cleaning, form, quiet)
    command = _next_command(out, form, found, cleaning.kept) if cleaning.changed else None
    _print_counts(out, cleaning, command, quiet, as_json)
    if not cleaning.changed:
        say(_unchanged(found, probability, decisions), quiet)
    elif form == "ids":
        say("The file holds labels by id, without the samples: `tnlpad train` cannot read it.", quiet)


def _check_options(out: Path, probability: float | None, top: int | None, review: Path | None) -> None:
    from tnlpad.suspects.cleaned_files import FORMS

    known = sorted({suffix for suffixes, _ in FORMS.values() for suffix in suffixes})
    if out.is_dir() or out.suffix.lower() not in known:
        fail(f"--out {out}: name a file that ends in {', '.join(known)}.", code=2)
    if top is not None and probability is not None:
        fail(f"--top {top} and --confidence {probability}: give one of them.", code=2)
    if review is not None and not review.exists():
        fail(f"--review {review} does not exist. Give the review.csv that the page saved.", code=3)


def _write(out: Path, form: "Form", found: "RankedRun", kept: "Sequence[Cleaned]", quiet: bool) -> None:
    from tnlpad.errors import DataError
    from tnlpad.suspects.cleaned_files import FORMS, write_cleaned
    from tnlpad.suspects.listing import MOVED

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


def _ways_out(found: "RankedRun") -> str:
    folder = shlex.quote(str(found.folder.path))
    return (
        f"nothing was written, since no label can be called probably wrong. Check labels at random (tnlpad audit "
        f"{folder}), pass your own decisions with --review, or change the N most suspicious labels with --top N."
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


def _warn(found: "RankedRun", cleaning: "Cleaning", form: "Form", quiet: bool) -> None:
    """Print what to know before training on the file."""
    for note in found.notes:
        say(f"Note: {note}", quiet)
    if cleaning.spared:
        names = _classes(cleaning.spared)
        say(f"All samples of {names} are suspect. Their labels stay as they are: decide on them with --review.", quiet)
    labels = {row.label for row in cleaning.kept}
    if new := sorted(labels - set(found.scores.class_names)):
        say(f"The review adds {_classes(new)}: the data have no such labels.", quiet)
    given = {found.scores.class_names[label] for label in set(found.scores.columns["given"].tolist())}
    if lost := sorted(given - labels):
        say(f"By your decisions, no sample is left of {_classes(lost)}.", quiet)
    if unused := len(found.about.get("left_out", ())):
        fate = "stay as they are" if form in ("table", "manifest") else "are not in the file"
        say(f"{unused:,} samples that could not be trained on {fate}.", quiet)


def _classes(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:80]) for name in names[:MAX_CLASSES_NAMED])
    more = f" and {len(names) - MAX_CLASSES_NAMED:,} more" if len(names) > MAX_CLASSES_NAMED else ""
    return f"{'class' if len(names) == 1 else 'classes'} {shown}{more}"


def _unchanged(found: "RankedRun", probability: float | None, decisions: "Review | None") -> str:
    """Return why no label was changed."""
    from tnlpad.suspects.clean import DEFAULT_CONFIDENCE

    if found.caution is not None:
        reason = "the model is too weak to call any label probably wrong"
    else:
        highest = float(found.ranking.confidence.max())
        reason = (
            f"none is wrong with a probability of {DEFAULT_CONFIDENCE if probability is None else probability:.0%} "
            f"(highest: {highest:.0%})"
        )
    kept = ", and your decisions keep the labels" if decisions else ""
    return f"No label was changed: {reason}{kept}. The file has the labels of the data."


def _next_command(out: Path, form: "Form", found: "RankedRun", kept: "Sequence[Cleaned]") -> str | None:
    """Return the command that trains on the file; None for labels by id."""
    from tnlpad.suspects.cleaned_files import images_option

    if form == "ids":
        return None
    command = ["tnlpad", "train", str(out)]
    if form in ("table", "manifest", "pictures"):
        columns = {name: found.about.get(f"{name}_column") for name in ("text", "group", "id")}
        command += table_options(found.about.get("label_column"), found.about.get("ignored", ()), **columns)
    if (images := images_option(out, form, found, kept)) is not None:
        command += ["--images", str(images)]
    return shlex.join(command)


def _print_counts(out: Path, cleaning: "Cleaning", command: str | None, quiet: bool, as_json: bool) -> None:
    kept, corrected, dropped = len(cleaning.kept), cleaning.corrected, cleaning.dropped
    total = kept + dropped
    if as_json:
        counts = {"samples": total, "kept": kept, "corrected": corrected, "dropped": dropped}
        print_json({"file": str(out), **counts, "spared": list(cleaning.spared), "next": command})
        return
    lost = f", {dropped:,} dropped" if dropped else ""
    typer.echo(f"{kept:,} of {total:,} samples kept{lost}, {corrected:,} labels corrected: {out}")
    if command is not None:
        say(f"Next: {command}", quiet)
