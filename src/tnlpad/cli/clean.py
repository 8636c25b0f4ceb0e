"""`tnlpad clean`: write the data of a run with the labels that are probably wrong corrected or dropped."""

import os
import shlex
from collections.abc import Sequence
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import AsJson, Quiet, RunArgument, Runs, SpreadsheetSafe, table_options
from tnlpad.cli.output import fail, print_json, printable, refuse_to_overwrite, say, used_folder, way_out
from tnlpad.cli.progress import progress_reporter
from tnlpad.report.words import counted
from tnlpad.spreadsheets import Formulas

if TYPE_CHECKING:
    from tnlpad.suspects.clean import Cleaned, Cleaning
    from tnlpad.suspects.cleaned_files import Origin
    from tnlpad.suspects.listing import RankedRun
    from tnlpad.suspects.review import Disagreement, MergedReview

MAX_CLASSES_NAMED = 5
MAX_DISAGREEMENTS_NAMED = 3
CAME_AS: dict["Origin", str] = {
    "image folder": "a folder of images",
    "text": "a table of text",
    "json": "JSON Lines",
    "workbook": "a workbook",
    "parquet": "a Parquet file",
    "dataset folder": "a dataset",
    "arrays": "arrays",
    "shards": "tar shards, whose labels are written as a table",
    "record": "labels by id",
}


def clean(
    run: RunArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="File or folder to write, of the kind that the data came as: a folder for images and Hugging Face "
            "datasets, or a .csv, .jsonl, .xlsx, .parquet or .npz file. Most data can also be written as .csv.",
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
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Decisions saved from a page; they override the suggestions. Repeatable: the majority of several "
            "people decides (default: those of `tnlpad review`, if there are any).",
        ),
    ] = None,
    no_review: Annotated[bool, typer.Option("--no-review", help="Leave out the decisions of `tnlpad review`.")] = False,
    files: Annotated[
        Literal["link", "copy"] | None,
        typer.Option(help="Write the images of a folder as hard links or as copies (default: link)."),
    ] = None,
    runs: Runs = Path("runs"),
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write all samples with the probably wrong labels corrected or dropped.

    The data are written in their original format, with all columns, and
    the original labels in original_label. `tnlpad train` reads them, and does
    not ask again about labels that you decided on. PATH.changes.csv lists
    every change and why. The test split is not changed. Decisions of an audit
    are used. Classes with fewer than 5 samples are left alone. If the model is
    too weak to estimate which labels are wrong, only the labels in --top or
    --review are changed.

    Example: tnlpad clean RUN --out photos2 --confidence 0.9
    """
    from tnlpad.errors import DataError
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.clean import clean_samples
    from tnlpad.suspects.cleaned_files import origin_of

    probability = _read_probability(confidence)
    if top is not None and probability is not None:
        fail(f"--top {top} and --confidence {probability}: give one of them.", code=2)
    if review and no_review:
        fail(f"--review {review[0]} and --no-review: give one of them.", code=2)
    found = find_ranked_run(run, runs)
    reviews = review or ([] if no_review else _own_review(found, quiet))
    merged = _read_reviews(reviews, found)
    if found.caution is not None:
        say(f"Caution: {found.caution}", quiet)
        if top is None and probability is None and not reviews and not found.ranking.decisions:
            fail(_ways_out(found))
    try:
        cleaning = clean_samples(
            found,
            action=action,
            confidence=probability,
            top=top,
            review=merged.decisions,
            undecided=merged.undecided,
        )
        origin = origin_of(found, cleaning.kept)
    except (DataError, RecordError) as error:
        fail(str(error), code=3)
    _check_target(out, origin, found, cleaning.kept, reviews, files)
    formulas = Formulas(safe=spreadsheet_safe)
    _write(out, found, cleaning, files or "link", formulas, quiet)
    _warn_about_reviews(merged.disagreements, quiet)
    _warn(found, cleaning, origin, quiet)
    if cleaning.suggested and not reviews:
        say(_about_suggestions(found), quiet)
    command = _next_command(out, origin, found, cleaning.kept) if cleaning.changed else None
    if as_json:
        print_json(_document(out, cleaning, merged, reviews, command))
    else:
        _print_counts(out, cleaning, command, quiet)
    if not cleaning.changed:
        say(_unchanged(found, cleaning, merged, probability, top), quiet)
    elif command is None:
        say("The file holds labels by id, without the samples: `tnlpad train` cannot read it.", quiet)


# Options --------------------------------------------------------------------------------------------------------------


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


def _own_review(found: "RankedRun", quiet: bool) -> list[Path]:
    """Return the decisions that `tnlpad review` wrote into the run folder, if there are any."""
    from tnlpad.suspects.review import REVIEW_FILE

    path = found.folder.path / REVIEW_FILE
    if not path.exists():
        return []
    say(f"Using the decisions in {path}; --no-review leaves them out.", quiet)
    return [path]


def _read_reviews(paths: Sequence[Path], found: "RankedRun") -> "MergedReview":
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.review import read_reviews

    people: set[str] = set()
    for path in paths:
        if not path.exists():
            fail(f"--review {path} does not exist. Give the review.csv that the page saved.", code=3)
        if os.path.realpath(path) in people:
            fail(f"--review {path} is given twice, and would count as two people. Leave one out.", code=2)
        people.add(os.path.realpath(path))
    try:
        return read_reviews(paths, found.names.ids, found.scores.class_names)
    except RecordError as error:
        fail(str(error), code=3)


def _check_target(
    out: Path,
    origin: "Origin",
    found: "RankedRun",
    kept: "Sequence[Cleaned]",
    reviews: Sequence[Path],
    files: str | None,
) -> None:
    """Exit with code 2 if the data cannot be written to this path."""
    from tnlpad.atomic_files import remove_leftovers
    from tnlpad.data.own.decided import decisions_file
    from tnlpad.suspects.cleaned_files import FOLDER, allowed_suffixes, changes_file, suffix_of

    logs = {os.path.realpath(log): log for log in (changes_file(out), decisions_file(out))}
    for source in (found.about.get("path"), *reviews):
        if source is not None:
            refuse_to_overwrite(out, source, "--out")
            if (log := logs.get(os.path.realpath(source))) is not None:
                fail(f"--out {out}: {log} is written beside it, and this command reads it. Name another file.", code=2)
    allowed = allowed_suffixes(origin, found, kept)
    if suffix_of(out) not in allowed:
        fail(f"--out {out}: the data came as {CAME_AS[origin]}. Name {_kinds(allowed)}.", code=2)
    to_folder = suffix_of(out) == FOLDER
    if files is not None and not (to_folder and origin == "image folder"):
        fail(f"--files {files} is for images that are written to a folder. Leave it out.", code=2)
    if os.path.isdir(out) and (not to_folder or any(out.iterdir())):
        remove_leftovers(out.parent)  # of a command that was killed just after the folder had its name
        fail(f"--out {out} is a folder that exists already{' and is not empty' * to_folder}. Name another one.", code=2)
    if to_folder and os.path.exists(out) and not os.path.isdir(out):
        fail(f"--out {out} is a file, and the data are written to a folder. Name another one.", code=2)
    source = os.path.realpath(found.about.get("path") or "")
    if to_folder and os.path.realpath(out).startswith(source + os.sep):
        fail(f"--out {out} is within the folder that the data come from. Name a folder elsewhere.", code=2)


def _kinds(suffixes: Sequence[str]) -> str:
    """Return the kinds of output in words."""
    named = [suffix for suffix in suffixes if suffix]
    *others, last = named or [""]
    file = f"a {', '.join(others)}{' or ' if others else ''}{last} file" if last else ""
    return "a folder, or " + file if len(named) < len(suffixes) else file


# Writing --------------------------------------------------------------------------------------------------------------


def _write(
    out: Path,
    found: "RankedRun",
    cleaning: "Cleaning",
    files: Literal["link", "copy"],
    formulas: Formulas,
    quiet: bool,
) -> None:
    from tnlpad.errors import DataError
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.cleaned_files import changes_file, write_cleaned

    with used_folder(out.parent, "--out"):
        try:
            with progress_reporter(quiet) as reporter:
                write_cleaned(out, found, cleaning, files=files, reporter=reporter, formulas=formulas)
        except (DataError, RecordError) as error:
            fail(str(error), code=3)
        except OSError as error:
            fail(f"cannot write {out} ({error.strerror or error}). {way_out(error, 'another place')}")
    if note := formulas.note(changes_file(out), "tnlpad clean"):
        say(f"Note: {note}", quiet)


def _next_command(out: Path, origin: "Origin", found: "RankedRun", kept: "Sequence[Cleaned]") -> str | None:
    """Return the command that trains on the cleaned data; None for labels by id."""
    from tnlpad.suspects.cleaned_files import images_option

    if not found.about or origin == "shards":
        return None
    command = ["tnlpad", "train", str(out)]
    if origin not in ("image folder", "record"):
        columns = {name: found.about.get(f"{name}_column") for name in ("text", "group", "id")}
        command += table_options(found.about.get("label_column"), found.about.get("ignored", ()), **columns)
    if (images := images_option(out, found, kept)) is not None:
        command += ["--images", str(images)]
    return shlex.join(command)


# Messages -------------------------------------------------------------------------------------------------------------


def _ways_out(found: "RankedRun") -> str:
    folder = shlex.quote(str(found.folder.path))
    return (
        f"nothing was written, since no label can be called probably wrong. Check labels at random (tnlpad audit "
        f"{folder}), pass your own decisions with --review, or change the N most suspicious labels with --top N."
    )


def _about_suggestions(found: "RankedRun") -> str:
    folder = shlex.quote(str(found.folder.path))
    return (
        "A given label may be surely wrong and the suggestion still be wrong: look at them with "
        f"`tnlpad review {folder}`, or leave such samples out with --action drop."
    )


def _warn_about_reviews(disagreements: "Sequence[Disagreement]", quiet: bool) -> None:
    if not disagreements:
        return
    open_ones = sum(not each.decided for each in disagreements)
    said = [
        f"The reviews disagree about {counted(len(disagreements), 'sample')}, and have no majority for {open_ones:,}, "
        "whose labels stay as they are"
    ]
    for each in disagreements[:MAX_DISAGREEMENTS_NAMED]:
        votes = ", ".join(f"{'exclude' if label is None else printable(label)[:80]} {n}" for label, n in each.votes)
        said.append(f"{printable(each.id)[:80]} ({votes})")
    more = ", …" if len(disagreements) > MAX_DISAGREEMENTS_NAMED else "."
    say(f"{said[0]}: {', '.join(said[1:])}{more}", quiet)


def _warn(found: "RankedRun", cleaning: "Cleaning", origin: "Origin", quiet: bool) -> None:
    """Print what to know before training on the cleaned data."""
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
    # Older versions list all of them.
    if (unused := found.about.get("left_out_count", len(found.about.get("left_out", ())))) > 0:
        fate = "Not written" if origin in ("image folder", "record") else "Left as before"
        say(f"{fate}: {counted(unused, 'sample')} that could not be trained on.", quiet)


def _classes(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:80]) for name in names[:MAX_CLASSES_NAMED])
    more = f" and {len(names) - MAX_CLASSES_NAMED:,} more" if len(names) > MAX_CLASSES_NAMED else ""
    return f"{'class' if len(names) == 1 else 'classes'} {shown}{more}"


def _replaced(cleaning: "Cleaning") -> str:
    """Return how many labels were replaced, and by whose word."""
    suggested, decided = cleaning.suggested, cleaning.corrected - cleaning.suggested
    if not cleaning.corrected:
        return "no label replaced"
    if not decided:
        return f"{counted(suggested, 'label')} replaced by the suggested class"
    rest = f", {suggested:,} by the suggested class" if suggested else ""
    return f"{counted(decided, 'label')} replaced by decision{rest}"


def _unchanged(
    found: "RankedRun", cleaning: "Cleaning", merged: "MergedReview", probability: float | None, top: int | None
) -> str:
    """Return why no label was changed."""
    from tnlpad.suspects.clean import DEFAULT_CONFIDENCE

    settled = cleaning.decided.keys() | merged.undecided
    if top is not None:
        reason = f"the {top:,} most suspicious ones have decisions, or are all that their classes have"
    elif found.caution is not None:
        reason = "the model is too weak to call any label probably wrong"
    else:
        needed = DEFAULT_CONFIDENCE if probability is None else probability
        alone = {*cleaning.spared, *(found.scores.class_names[label] for label in found.ranking.rare)}
        judged = (row for row in cleaning.kept if row.id not in settled and row.original_label not in alone)
        highest = max((row.confidence for row in judged if row.confidence is not None), default=0.0)
        shown = floor(1000 * highest) / 1000  # 0.9996 must not read as 1
        which = "none without a decision" if settled else "none"
        reason = f"{which} is wrong with a probability of {needed} or more (highest: {shown})"
    kept = ", and your decisions keep the labels" if settled and top is None else ""
    return f"No label was changed: {reason}{kept}. What was written has the labels of the data."


def _document(
    out: Path, cleaning: "Cleaning", merged: "MergedReview", reviews: Sequence[Path], command: str | None
) -> dict[str, Any]:
    from tnlpad.suspects.cleaned_files import changes_file

    kept, dropped = len(cleaning.kept), cleaning.dropped
    return {
        "file": str(out),
        "changes": str(changes_file(out)),
        "samples": kept + dropped,
        "kept": kept,
        "corrected": cleaning.corrected,
        "dropped": dropped,
        "decided": len(cleaning.decided),
        "spared": list(cleaning.spared),
        "reviews": [str(path) for path in reviews],
        "disagreements": [each.to_json() for each in merged.disagreements],
        "next": command,
    }


def _print_counts(out: Path, cleaning: "Cleaning", command: str | None, quiet: bool) -> None:
    kept, dropped = len(cleaning.kept), cleaning.dropped
    lost = f", {dropped:,} dropped" if dropped else ""
    typer.echo(f"{kept:,} of {kept + dropped:,} samples kept{lost}, {_replaced(cleaning)}: {out}")
    if command is not None:
        say(f"Next: {command}", quiet)
