"""`tnlpad clean`: the labels of a run's data with the suspects corrected or dropped, as data to train on."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.find_run import judged_run, run_data
from tnlpad.cli.options import table_options
from tnlpad.cli.output import fail, print_json, refuse_to_overwrite, say

if TYPE_CHECKING:
    from tnlpad.suspects.clean import Cleaned, Form, Review, TableOfRun
    from tnlpad.suspects.listing import JudgedSamples

Action = Literal["correct", "drop"]
LEAST_CONFIDENCE = 0.9


def clean(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or its name.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="What to write: .csv, .tsv or .txt; .npz for images of such a file, .parquet for pictures in a table.",
        ),
    ],
    action: Annotated[
        Action, typer.Option(help="What happens to a label in doubt: the suggested one instead, or no such sample.")
    ] = "correct",
    confidence: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Only labels that are wrong this probably: a share or a percentage; 0.9 by default."
        ),
    ] = None,
    review: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What you decided on the page of suspects, which counts before all else."),
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders lie.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON document.")] = False,
) -> None:
    """Write all samples as a table with the doubtful labels corrected or dropped.

    The label as it was given stays beside the new one, in original_label, and
    a test part as it is. A table keeps all its columns, and text its encoding
    and separator. `tnlpad train` takes the file as other data.
    Where the network is too weak to be believed, only labels that you decided
    on are changed, unless you say --confidence.

    Example: tnlpad clean RUN --out manifest.csv --confidence 0.9
    """
    from tnlpad.errors import DataError
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.clean import SUFFIXES, WHY, form_of, write_cleaned
    from tnlpad.suspects.listing import MOVED

    known = sorted({suffix for each in SUFFIXES.values() for suffix in each})
    if out.is_dir() or out.suffix.lower() not in known:
        fail(f"--out {out}: name a file that ends in {', '.join(known)}.", code=2)
    said = _probability(confidence)
    found = judged_run(run, runs)
    least = _least_confidence(said, found, review, quiet)
    try:
        about = read_data_file(found.folder.path) or {}
        decided = _review(review, found)
        rows = list(_rows(found, action, least, decided))
    except RecordError as error:
        fail(str(error), code=3)
    for source in (about.get("path"), review):
        if source is not None:
            refuse_to_overwrite(out, source, "--out")
    form = form_of(about, rows)
    if out.suffix.lower() not in SUFFIXES[form]:
        fail(f"--out {out}: {WHY[form]}. Name a file that ends in {SUFFIXES[form][0]}.", code=2)
    if form in ("paths", "manifest") and not any(os.path.exists(row.path or "") for row in rows):
        fail(f"{about['path']} is gone, or the images that it leads to: such as {rows[0].path}. {MOVED}", code=3)
    own = run_data(found.folder, quiet) if form not in ("paths", "manifest", "ids") else None
    try:
        table = _table_of(found, about) if form in ("table", "manifest") else None
        write_cleaned(out, rows, table, own)
    except DataError as error:
        fail(str(error), code=3)
    except OSError as error:
        fail(f"cannot write {out} ({error.strerror or error}). Free some space there, or name another file.")
    _warn(found, rows, least, quiet)
    if unused := len(about.get("left_out", ())):
        fate = "stay as they are" if table is not None else "are not in it"
        say(f"{unused:,} samples that could not be trained on {fate}.", quiet)
    total = len(found.scores) + sum(row.split == "test" for row in rows)
    _tell(out, rows, total, _next(out, rows, form, about), quiet, as_json)


def _probability(text: str | None) -> float | None:
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


def _least_confidence(said: float | None, found: "JudgedSamples", review: Path | None, quiet: bool) -> float:
    """What was said; else the usual, unless the run's network is too weak to change labels that nobody looked at."""
    warning = found.caution
    if warning is None:
        return LEAST_CONFIDENCE if said is None else said
    if said is not None:
        say(f"Caution: {warning}", quiet)
        return said
    if review is None:
        fail(
            f"{warning} So no label is changed unasked: look at the suspects and give what you decided with --review, "
            "or say --confidence."
        )
    return 1.0


def _warn(found: "JudgedSamples", rows: "Sequence[Cleaned]", confidence: float, quiet: bool) -> None:
    """What the owner should know before training on it."""
    if confidence < 1 and not any(row.changed for row in rows) and len(found.scores) <= len(rows):
        surest = max(row.confidence or 0 for row in rows)
        say(f"No label is wrong with {confidence:.0%}; the most doubtful one is with {surest:.0%}.", quiet)
    if new := sorted({row.label for row in rows} - set(found.scores.class_names)):
        say(f"The review has {len(new)} classes that the data had not, such as {new[0][:80]!r}.", quiet)
    given = {found.scores.class_names[label] for label in set(found.scores.columns["given"].tolist())}
    if lost := sorted(given - {row.label for row in rows}):
        say(f"No sample is left of {len(lost)} classes, such as {lost[0][:80]!r}.", quiet)


def _review(path: Path | None, found: "JudgedSamples") -> "Review | None":
    from tnlpad.suspects.clean import read_review

    return read_review(path, found.names.ids) if path is not None else None


def _rows(found: "JudgedSamples", action: Action, confidence: float, review: "Review | None") -> "Iterator[Cleaned]":
    from tnlpad.records.scores import read_samples
    from tnlpad.suspects.clean import Change, cleaned, untouched

    change = Change(action=action, least_confidence=confidence)
    yield from cleaned(found.ranking, found.scores, found.names, change, review)
    if samples := read_samples(found.folder.path):
        yield from untouched(samples)


def _table_of(found: "JudgedSamples", about: Mapping[str, Any]) -> "TableOfRun":
    from tnlpad.records.scores import read_samples
    from tnlpad.suspects.clean import TableOfRun

    samples = read_samples(found.folder.path)
    simulated = found.folder.config().get("noise") not in (None, "none")
    labels = [None] * len(samples["id"]) if simulated else samples["label_name"]
    return TableOfRun(
        path=Path(about["path"]),
        label=about.get("label_column"),
        ignored=about.get("ignored", ()),
        labels=dict(zip(samples["id"], labels, strict=True)),
    )


def _next(out: Path, rows: "Sequence[Cleaned]", form: "Form", about: Mapping[str, Any]) -> str | None:
    """The command that trains on what was written; None if nothing can."""
    import shlex

    command = ["tnlpad", "train", str(out)]
    if form == "ids":
        return None
    if form in ("table", "manifest", "pictures"):
        command += table_options(about.get("label_column"), about.get("ignored", ()))
    if form in ("paths", "manifest") and (images := _folder_to_name(out, rows, form, about)) is not None:
        command += ["--images", str(images)]
    return shlex.join(command)


def _folder_to_name(out: Path, rows: "Sequence[Cleaned]", form: "Form", about: Mapping[str, Any]) -> Path | None:
    """What paths are relative to; None where that is the folder of what was written."""
    source = Path(about.get("images") or about["path"])
    images = source if source.is_dir() else source.parent
    folder = os.path.realpath(out.parent)
    if form == "manifest":  # with the paths as they were
        return None if os.path.realpath(images) == folder else images
    paths = [os.path.realpath(row.path) for row in rows if row.path is not None]
    return None if os.path.commonpath([folder, *paths]) == folder else images


def _tell(out: Path, rows: "Sequence[Cleaned]", total: int, command: str | None, quiet: bool, as_json: bool) -> None:
    corrected = sum(row.changed for row in rows)
    if as_json:
        counts = {"samples": total, "kept": len(rows), "corrected": corrected, "dropped": total - len(rows)}
        print_json({"file": str(out), **counts, "next": command})
        return
    dropped = f", {total - len(rows):,} dropped" if len(rows) < total else ""
    typer.echo(f"{len(rows):,} of {total:,} samples kept{dropped}, {corrected:,} labels corrected: {out}")
    if command is not None:
        say(f"Next: {command}", quiet)
    else:
        say("The table has labels by id, and no paths: nothing trains on it.", quiet)
