"""`tnlpad check`: what is in a person's own data, and what would be trained on them, before anything is."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.data import BAD_DATA
from tnlpad.cli.options import IgnoredColumns, LabelColumn
from tnlpad.cli.output import fail, print_json, printable
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.inspect import Inspection
    from tnlpad.runs.config import RunConfig

SHOWN = 5  # of any long list; --json has all
LONGEST_NAME = 60
STRONG_IMBALANCE = 10


def check(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with a folder of images per class, a CSV or Parquet table, an .npz file, or a Hugging Face "
            "dataset on disk.",
        ),
    ],
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What the paths in a table of images are relative to.")
    ] = None,
    label: LabelColumn = None,
    ignore: IgnoredColumns = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, with every sample left out.")
    ] = False,
) -> None:
    """Look at your own data: classes, sizes, unreadable files, duplicates, and what would be trained.

    Every image is decoded; nothing is written. Exits with 3 if there is nothing to train on.

    Example: tnlpad check photos
    """
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import open_dataset
    from tnlpad.data.own.inspect import inspect
    from tnlpad.errors import DataError

    if str(data) in CATALOGUE and not data.exists():
        fail(f"{data} is a published dataset: `tnlpad data check {data}` is for those.", code=2)
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(data, images=images, label=label, ignored=ignore or (), reporter=reporter)
    except DataError as error:
        fail(str(error), code=BAD_DATA)
    found = inspect(own)
    config, obstacle = _plan(own)
    if as_json:
        document = found.to_json() | {"training": _training(config), "obstacle": obstacle}
        print_json(document)
    else:
        for line in _lines(found, own):
            typer.echo(line)
        if config is not None:
            typer.echo(_words(config, own))
    if obstacle is not None:
        fail(obstacle, code=BAD_DATA)


def _plan(own: "OwnDataset") -> tuple["RunConfig | None", str | None]:
    """What `tnlpad train` would do, or why it would not."""
    from tnlpad.errors import DataError
    from tnlpad.runs.config import configure
    from tnlpad.runs.own_data import trainable_parts

    try:
        trainable_parts(own)
        return configure(own.shape), None
    except DataError as error:
        return None, str(error)


def _training(config: "RunConfig | None") -> dict[str, Any] | None:
    if config is None:
        return None
    names = ("method", "network", "epochs", "batch_size", "learning_rate", "resize", "crop", "validation_fraction")
    return {name: getattr(config, name) for name in names} | {"options": dict(config.options)}


def _lines(found: "Inspection", own: "OwnDataset") -> Iterator[str]:
    what = {"images": "images in arrays", "files": "image files", "features": "rows of numbers"}[found.kind]
    if found.kind == "files" and not any(own.paths):
        what = "pictures in a table"
    parts = ", ".join(f"{name} {count:,}" for name, count in found.parts.items())
    yield f"{own.source}: {found.samples:,} {what}, {len(found.classes):,} classes" + (
        f" ({parts})" if own.parts is not None else ""
    )
    yield f"classes: {_counts(found.classes)}"
    yield from _about_classes(found)
    if found.columns:
        yield f"columns: {len(found.columns):,} ({_some(found.columns)})"
    if found.sizes:
        yield f"sizes: {_counts({f'{width}x{height}': count for (width, height), count in found.sizes.items()})}"
    if found.modes:
        yield f"modes: {_counts(found.modes)}"
    if found.left_out:
        yield f"left out: {len(found.left_out):,} samples that cannot be used"
        for reason, count in list(found.reasons.items())[:SHOWN]:
            example = next(each.id for each in found.left_out if each.reason == reason)
            yield f"  {count:,}: {reason} (such as {_short(example)})"
        if len(found.reasons) > SHOWN:
            yield f"  and for {len(found.reasons) - SHOWN:,} other reasons: see --json"
    yield from _about_duplicates(found)
    for note in found.notes:
        yield f"note: {note}"


def _about_classes(found: "Inspection") -> Iterator[str]:
    if found.imbalance >= STRONG_IMBALANCE:
        yield f"imbalance: the largest class has {found.imbalance:,.0f} times the samples of the smallest"
    if found.single:
        yield f"classes with a single sample: {len(found.single):,} ({_some(found.single)})"
    if found.empty:
        yield f"classes without a sample: {len(found.empty):,} ({_some(found.empty)})"
    if found.untrained:
        yield f"classes in other parts only, not trained on: {len(found.untrained):,} ({_some(found.untrained)})"
    for names in found.alike[:SHOWN]:
        difference = "differ in capitals, spaces or accents at most, or are the same number"
        yield f"named alike: {_some(names)} {difference}, and count as {len(names)}"


def _about_duplicates(found: "Inspection") -> Iterator[str]:
    if not found.duplicates:
        yield "duplicates: none"
        return
    samples = sum(len(each.ids) for each in found.duplicates)
    yield f"duplicates: {samples:,} samples share {len(found.duplicates):,} contents"
    if across := sum(each.across_parts for each in found.duplicates):
        yield f"  {across:,} of these contents are in more than one part, so that a test on them says little"
    contradictions = found.contradictions
    if contradictions:
        heading, doubt = "wrong for certain", ""
        if found.kind == "features":
            heading, doubt = "contradictions", ": one is wrong, or the columns do not tell the classes apart"
        yield f"{heading}: {len(contradictions):,} contents have more than one label{doubt}"
    for group in contradictions[:SHOWN]:
        pairs = zip(group.ids, group.labels, strict=True)
        yield "  " + ", ".join(f"{_short(name)} ({_short(label)})" for name, label in list(pairs)[:SHOWN])


def _words(config: "RunConfig", own: "OwnDataset") -> str:
    size = ""
    if own.kind == "files":
        size = f", at {config.crop or config.resize} pixels" + (", streamed from files" if config.crop else "")
    held_out = (
        f"{own.shape.validation:,} samples of its own part"
        if own.shape.validation
        else f"{config.validation_fraction:.0%} of the samples"
    )
    test = "a test part with labels as given" if own.shape.test else "no test part"
    return (
        f"`tnlpad train` would use {config.network}{size}, {config.epochs} epochs, batches of {config.batch_size}, "
        f"method {config.method} with c2 {config.options['c2']:.2g}; {held_out} to choose the epoch, {test}."
    )


def _counts(counts: dict[str, int]) -> str:
    """Each with its number; the middle of a long list is left out."""
    items = [f"{_short(name)} ({count:,})" for name, count in counts.items()]
    if len(items) > 2 * SHOWN:
        items = [*items[:SHOWN], f"… {len(items) - 2 * SHOWN:,} more …", *items[-SHOWN:]]
    return ", ".join(items)


def _some(names: Sequence[str]) -> str:
    shown: Iterable[str] = map(_short, names[:SHOWN])
    return ", ".join(shown) + (", …" if len(names) > SHOWN else "")


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"
