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
    Memory,
    Quiet,
    TextColumn,
)
from tnlpad.cli.output import exit_codes, fail, print_json, printable, say
from tnlpad.cli.progress import duration, progress_reporter
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.inspect import Duplicates, Inspection
    from tnlpad.runs.choose_backbone import AnyBackbone
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
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder with one folder of images per class, a table (.csv, .tsv, .txt, .jsonl, .xlsx, .parquet), "
            "an .npz file or a Hugging Face dataset on disk.",
        ),
    ],
    images: ImagesFolder = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    group: GroupColumn = None,
    id: IdColumn = None,
    ignore: IgnoredColumns = None,
    memory: Memory = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Describe your own data, and the network and settings that `tnlpad train` would use.

    Prints classes, sizes, unreadable files, exact and near duplicates. Every
    image is decoded; your data are not changed. Exits with code 3 if the
    data cannot be trained on.

    Example: tnlpad check photos
    """
    from tnlpad.data.own import open_dataset
    from tnlpad.data.own.inspect import inspect
    from tnlpad.errors import DataError
    from tnlpad.runs.memory import image_memory, streaming_sentence
    from tnlpad.suspects.ranking import MIN_CLASS_SAMPLES

    with exit_codes():
        limit = image_memory(memory)
    _require_own(data)
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(
                data,
                images=images,
                label=label,
                text=text,
                group=group,
                id=id,
                ignored=ignore or (),
                fresh=True,
                reporter=reporter,
            )
            found = inspect(own, reporter)
    except DataError as error:
        fail(str(error), code=3)
    config, pretrained, obstacle = _plan(own, limit)
    if not as_json:
        for line in _lines(found, own):
            typer.echo(line)
        if config is not None:
            typer.echo(_training_line(config, own))
            if (sentence := streaming_sentence(config, limit)) is not None:
                typer.echo(sentence)
    seconds = None if config is None else _seconds(config, own, pretrained, quiet)
    if as_json:
        document = found.to_json() | {"training": _training(config), "seconds": seconds, "obstacle": obstacle}
        print_json(document | {"classes_too_small_to_judge": list(found.smaller_than(MIN_CLASS_SAMPLES))})
    elif config is not None and seconds is not None:
        typer.echo(_time_line(config, seconds))
    if obstacle is not None:
        fail(obstacle, code=3)


def _require_own(data: str) -> None:
    from tnlpad.data.catalogue import CATALOGUE

    if not data:
        fail("DATA is empty. Give your folder, table or file; `tnlpad check .` reads the current folder.", code=2)
    if data in CATALOGUE and not Path(data).exists():
        fail(f"{data} is a published dataset. Check it with `tnlpad data check {data}`.", code=2)


def _plan(own: "OwnDataset", memory: int) -> tuple["RunConfig | None", "AnyBackbone | None", str | None]:
    """Return the configuration that `tnlpad train` would use and its backbone, or why it would fail."""
    from tnlpad.errors import DataError
    from tnlpad.runs.choose_backbone import fitting_backbone
    from tnlpad.runs.config import configure
    from tnlpad.runs.devices import device_named
    from tnlpad.runs.own_data import trainable_parts

    try:
        trainable_parts(own)
        chosen = fitting_backbone("auto", own, {}, memory)
        config = configure(own.shape, device=device_named("auto"), backbone=chosen.identity, settings=chosen.settings)
        return config, chosen.backbone, None
    except DataError as error:
        return None, None, str(error)


def _seconds(config: "RunConfig", own: "OwnDataset", backbone: "AnyBackbone | None", quiet: bool) -> float | None:
    """Return about how long `tnlpad train` takes."""
    from tnlpad.runs.devices import device_named
    from tnlpad.runs.trial import estimated_seconds

    say("Training on a few samples to estimate the time.", quiet)
    return estimated_seconds(config, own, backbone=backbone, device=device_named("auto"))


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
    yield f"{own.source}: {found.samples:,} {kind}, {_classes(len(found.classes))}" + (
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
        yield f"left out: {counted(len(found.left_out), 'sample')} that cannot be used"
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
    from tnlpad.suspects.ranking import MIN_CLASS_SAMPLES

    if found.imbalance >= STRONG_IMBALANCE:
        yield f"imbalance: the largest class has {found.imbalance:,.0f} times as many samples as the smallest"
    for heading, names in (
        (
            f"classes with fewer than {MIN_CLASS_SAMPLES} samples, too few to judge",
            found.smaller_than(MIN_CLASS_SAMPLES),
        ),
        ("classes without a sample", found.empty),
        ("classes that are not in the training part", found.untrained),
    ):
        if names:
            yield f"{heading}: {len(names):,} ({_some(names)})"


def _about_duplicates(found: "Inspection") -> Iterator[str]:
    if not found.duplicates and not found.near_duplicates:
        yield "duplicates: none"
    if found.duplicates:
        yield from _about_groups(
            found.duplicates, "duplicates", "of identical content", "identical samples", found.kind
        )
    if found.near_duplicates:
        alike = "that read nearly the same" if found.kind == "text" else "that look the same"
        yield from _about_groups(found.near_duplicates, "near duplicates", alike, "near duplicates", found.kind)


def _about_groups(found: "Sequence[Duplicates]", heading: str, description: str, what: str, kind: str) -> Iterator[str]:
    """Count groups of duplicates, and show those in several splits and with several labels."""
    samples = sum(len(each.ids) for each in found)
    yield f"{heading}: {samples:,} samples in {_groups(len(found))} {description}"
    if across := sum(each.across_parts for each in found):
        yield f"  {_groups(across)} in more than one split, so a test on them says little"
    contradictions = [each for each in found if each.contradict]
    if contradictions:
        verb = "has" if len(contradictions) == 1 else "have"
        doubt = ": one is wrong, or the columns do not tell the classes apart" if kind in ("features", "table") else ""
        yield f"conflicting labels: {_groups(len(contradictions))} of {what} {verb} different labels{doubt}"
    for group in contradictions[:MAX_SHOWN]:
        yield f"  {_by_label(group)}"


def _by_label(group: "Duplicates") -> str:
    """Count the labels of a group, the most frequent first, and name the samples that have another than it."""
    ids: dict[str, list[str]] = {}
    for name, label in zip(group.ids, group.labels, strict=True):
        ids.setdefault(label, []).append(name)
    largest, *others = sorted(ids, key=lambda label: -len(ids[label]))
    is_majority = len(ids[largest]) > len(ids[others[0]])
    parts = [
        f"{len(ids[label]):,} {_short(label)}" + ("" if label == largest and is_majority else f": {_some(ids[label])}")
        for label in (largest, *others[:MAX_SHOWN])
    ]
    return "; ".join(parts) + ("; …" if len(others) > MAX_SHOWN else "")


def _groups(count: int) -> str:
    return counted(count, "group")


def _classes(count: int) -> str:
    return f"{count:,} class" if count == 1 else f"{count:,} classes"


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


def _time_line(config: "RunConfig", seconds: float) -> str:
    from tnlpad.runs.devices import device_named

    parts = "computing the features and training" if config.backbone is not None else "training"
    return (
        f"This takes about {duration(seconds)} on this machine ({device_named('auto')}), by a short trial of {parts}."
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
