"""`tnlpad check`: describe a user's own data, and the network and settings that `tnlpad train` would use."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.options import (
    AsJson,
    GroupColumn,
    IdColumn,
    IgnoredColumns,
    ImagesFolder,
    LabelColumn,
    Quiet,
    TextColumn,
)
from tnlpad.cli.output import fail, print_json, printable
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.inspect import Inspection
    from tnlpad.runs.config import RunConfig

MAX_SHOWN = 5  # of a long list; --json has all
MAX_NAME_LENGTH = 60
STRONG_IMBALANCE = 10
KINDS = {
    "images": "images in arrays",
    "files": "image files",
    "features": "rows of numbers",
    "text": "texts",
    "table": "rows of a table",
}


def check(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with one folder of images per class, a table (.csv, .tsv, .jsonl, .xlsx, .parquet), an .npz "
            "file or a Hugging Face dataset on disk.",
        ),
    ],
    images: ImagesFolder = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    group: GroupColumn = None,
    id: IdColumn = None,
    ignore: IgnoredColumns = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Describe your own data, and the network and settings that `tnlpad train` would use.

    Prints classes, sizes, unreadable files and duplicates. Every image is
    decoded; nothing is written. Exits with code 3 if the data
    cannot be trained on.

    Example: tnlpad check photos
    """
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import open_dataset
    from tnlpad.data.own.inspect import inspect
    from tnlpad.errors import DataError

    if str(data) in CATALOGUE and not data.exists():
        fail(f"{data} is a published dataset. Check it with `tnlpad data check {data}`.", code=2)
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(
                data, images=images, label=label, text=text, group=group, id=id, ignored=ignore or (), reporter=reporter
            )
    except DataError as error:
        fail(str(error), code=3)
    found = inspect(own)
    config, obstacle = _plan(own)
    if as_json:
        print_json(found.to_json() | {"training": _training(config), "obstacle": obstacle})
    else:
        for line in _lines(found, own):
            typer.echo(line)
        if config is not None:
            typer.echo(_training_line(config, own))
    if obstacle is not None:
        fail(obstacle, code=3)


def _plan(own: "OwnDataset") -> tuple["RunConfig | None", str | None]:
    """Return the configuration that `tnlpad train` would use, or why it would fail."""
    from tnlpad.errors import DataError
    from tnlpad.runs.choose_backbone import choose_backbone
    from tnlpad.runs.config import configure
    from tnlpad.runs.own_data import trainable_parts

    try:
        trainable_parts(own)
        pretrained = choose_backbone("auto", own)
        return configure(own.shape, backbone=pretrained.identity, settings=pretrained.settings), None
    except DataError as error:
        return None, str(error)


def _training(config: "RunConfig | None") -> dict[str, Any] | None:
    if config is None:
        return None
    names = (
        "method",
        "network",
        "backbone",
        "folds",
        "repeats",
        "epochs",
        "batch_size",
        "learning_rate",
        "resize",
        "crop",
        "validation_fraction",
    )
    return {name: getattr(config, name) for name in names} | {"options": dict(config.options)}


def _lines(found: "Inspection", own: "OwnDataset") -> Iterator[str]:
    kind = KINDS[found.kind]
    if found.kind == "files" and not any(own.paths):
        kind = "pictures in a table"
    parts = ", ".join(f"{name} {count:,}" for name, count in found.parts.items())
    yield f"{own.source}: {found.samples:,} {kind}, {len(found.classes):,} classes" + (
        f" ({parts})" if own.parts is not None else ""
    )
    yield f"classes: {_counts(found.classes)}"
    yield from _about_classes(found)
    yield from _about_content(own)
    if found.sizes:
        yield f"sizes: {_counts({f'{width}x{height}': count for (width, height), count in found.sizes.items()})}"
    if found.modes:
        yield f"modes: {_counts(found.modes)}"
    if found.left_out:
        yield f"left out: {len(found.left_out):,} samples that cannot be used"
        for reason, count in list(found.reasons.items())[:MAX_SHOWN]:
            example = next(each.id for each in found.left_out if each.reason == reason)
            yield f"  {count:,}: {reason} (such as {_short(example)})"
        if len(found.reasons) > MAX_SHOWN:
            yield f"  and {len(found.reasons) - MAX_SHOWN:,} other reasons: see --json"
    yield from _about_duplicates(found)
    for note in found.notes:
        yield f"note: {note}"


def _about_content(own: "OwnDataset") -> Iterator[str]:
    """Describe the columns of a table, the texts, and the groups."""
    if own.table is not None:
        for heading, names in (("numbers", own.table.number_columns), ("categories", own.table.category_columns)):
            if names:
                yield f"columns of {heading}: {len(names):,} ({_some(names)})"
    elif own.columns:
        yield f"columns: {len(own.columns):,} ({_some(own.columns)})"
    if own.texts is not None:
        lengths = sorted(map(len, own.texts))
        column = f"column {_short(own.text_column)!r}, " if own.text_column is not None else ""
        yield f"texts: {column}{lengths[len(lengths) // 2]:,} characters in the middle, at most {lengths[-1]:,}"
    if own.pictures is not None:
        found = sum(path is not None for path in own.pictures)
        yield f"pictures: {found:,} of {len(own.pictures):,} rows have one, which is shown and not trained on"
    if own.groups is not None:
        yield f"groups: {len(set(own.groups)):,}"


def _about_classes(found: "Inspection") -> Iterator[str]:
    if found.imbalance >= STRONG_IMBALANCE:
        yield f"imbalance: the largest class has {found.imbalance:,.0f} times as many samples as the smallest"
    for heading, names in (
        ("classes with a single sample", found.single),
        ("classes without a sample", found.empty),
        ("classes that are not in the training part", found.untrained),
    ):
        if names:
            yield f"{heading}: {len(names):,} ({_some(names)})"
    for names in found.alike[:MAX_SHOWN]:
        difference = "differ only in capitals, spaces or accents, or are the same number"
        yield f"similar names: {_some(names)} {difference}, and count as {len(names)} classes"


def _about_duplicates(found: "Inspection") -> Iterator[str]:
    if not found.duplicates:
        yield "duplicates: none"
        return
    samples = sum(len(each.ids) for each in found.duplicates)
    yield f"duplicates: {samples:,} samples in {_groups(len(found.duplicates))} of identical content"
    if across := sum(each.across_parts for each in found.duplicates):
        yield f"  {_groups(across)} in more than one split, so a test on them says little"
    if found.contradictions:
        count = len(found.contradictions)
        verb = "has" if count == 1 else "have"
        in_columns = found.kind in ("features", "table")
        doubt = ": one is wrong, or the columns do not tell the classes apart" if in_columns else ""
        yield f"conflicting labels: {_groups(count)} of identical samples {verb} different labels{doubt}"
    for group in found.contradictions[:MAX_SHOWN]:
        pairs = zip(group.ids, group.labels, strict=True)
        yield "  " + ", ".join(f"{_short(name)} ({_short(label)})" for name, label in list(pairs)[:MAX_SHOWN])


def _groups(count: int) -> str:
    return f"{count:,} group" if count == 1 else f"{count:,} groups"


def _training_line(config: "RunConfig", own: "OwnDataset") -> str:
    size = ""
    if config.backbone is not None:
        size = f" on features of {config.backbone} at {config.resize} pixels"
    elif own.kind == "files":
        size = f", at {config.crop or config.resize} pixels" + (", streamed from files" if config.crop else "")
    held_out = f"{config.validation_fraction:.0%} of the samples are held out to select the best epoch"
    if config.folds is not None:
        held_out = f"samples are judged out of fold ({config.folds} folds, {config.repeats} times)"
    if own.shape.validation:
        held_out = f"the {own.shape.validation:,} samples of the validation split select the best epoch"
    test = "a test split with the given labels" if own.shape.test else "no test split"
    return (
        f"`tnlpad train` would use {config.network}{size}, {config.epochs} epochs, batches of {config.batch_size}, "
        f"method {config.method} with c2 {config.options['c2']:.2g}; {held_out}; {test}."
    )


def _counts(counts: dict[str, int]) -> str:
    """List names with their counts, without the middle of a long list."""
    items = [f"{_short(name)} ({count:,})" for name, count in counts.items()]
    if len(items) > 2 * MAX_SHOWN:
        items = [*items[:MAX_SHOWN], f"… {len(items) - 2 * MAX_SHOWN:,} more …", *items[-MAX_SHOWN:]]
    return ", ".join(items)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(_short, names[:MAX_SHOWN])) + (", …" if len(names) > MAX_SHOWN else "")


def _short(name: str) -> str:
    name, half = printable(name), MAX_NAME_LENGTH // 2
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[:half]}…{name[-half:]}"
