"""Open own data: choose the reader of a path, check every sample, and leave out those that cannot be used.

Every image is decoded once, so that none fails in the middle of a training; `checked` remembers the result.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.arrays import read_npz
from tnlpad.data.own.checked import check_files
from tnlpad.data.own.dataset import (
    DataShape,
    Kind,
    Listing,
    OwnDataset,
    Problem,
    ReadOptions,
    fingerprint,
)
from tnlpad.data.own.decided import Decided, read_decided
from tnlpad.data.own.folder import is_image_name, read_folder, read_unlabelled_folder
from tnlpad.data.own.hugging_face import is_hugging_face, read_hugging_face, read_picture_table
from tnlpad.data.own.image_facts import ImageFacts
from tnlpad.data.own.labels import encoded, known_labels, label_problem, notes_on_classes
from tnlpad.data.own.manifest import SUFFIXES, read_manifest
from tnlpad.data.own.selection import Encoded, Selection, selected
from tnlpad.data.own.shards import is_shard_folder, read_shard_folder
from tnlpad.data.paths import PathList
from tnlpad.data.pixels import Channels
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError, as_utf8
from tnlpad.types import Index

UNLABELLED = -1
PACKED = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z", ".rar", ".gz")


def open_dataset(
    path: Path | str,
    *,
    images: Path | str | None = None,
    label: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    categories: Sequence[str] | None = None,
    ignored: Sequence[str] = (),
    text: str | None = None,
    group: str | None = None,
    id: str | None = None,
    fresh: bool = False,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """Open a folder of images, a table, an .npz file or a Hugging Face dataset on disk.

    Args:
        path: Path of the data.
        images: Folder that the paths in a table are relative to (default: the table's own).
        label, columns, categories, ignored, text, group, id: As in `ReadOptions`.
        labelled: Whether samples must have labels. If not, labels are not read, an image folder is every image below
            it, and a single image is allowed: data to predict.
        fresh: Whether to read every image file, also those that were checked before and have not changed.
        reporter: Receives progress.
    """
    source, folder = Path(path), Path(images) if images is not None else None
    for place in (source, folder) if labelled else ():  # to predict, no path is recorded
        if place is not None:
            as_utf8(os.path.abspath(place), "the path")
    options = ReadOptions(
        label=label,
        labelled=labelled,
        columns=columns,
        categories=categories,
        ignored=ignored,
        text=text,
        group=group,
        id=id,
    )
    listing = list_samples(source, folder, options)
    own = dataset_of(listing, source, folder, label_column=label, labelled=labelled, fresh=fresh, reporter=reporter)
    decided = Decided()
    if labelled:
        decided = read_decided(source, own.ids, Selection(own.class_names, own.labels))
    return replace(
        own,
        ignored=tuple(ignored),
        group_column=group,
        id_column=id,
        decided=decided.labels,
        notes=(*own.notes, *decided.notes),
    )


def list_samples(source: Path, images: Path | None, options: ReadOptions) -> Listing:
    """List the samples of data at a path without checking their content; for the arguments see `open_dataset`."""
    listing = _read(source, images, options)
    is_table = not os.path.isdir(source) and source.suffix.lower() in SUFFIXES
    if options.ignored and not is_table and not (os.path.isdir(source) and is_hugging_face(source)):
        raise DataError(f"--ignore {options.ignored[0]}: {source} is not a table. Leave --ignore out.")
    if options.text is not None and listing.texts is None:
        if not options.labelled:  # the column of a run that predicts
            raise DataError(
                f"{source} holds no texts, and this run was trained on the texts of column {options.text[:80]!r}. Give "
                "a table with that column."
            )
        raise DataError(f"--text {options.text}: {source} is not a table with a column of text. Leave --text out.")
    if options.group is not None and options.labelled and listing.groups is None:
        raise DataError(f"--group {options.group}: {source} has no columns. Leave --group out.")
    if images is not None and not is_table:
        raise DataError(f"--images {images}: {source} is not a table with a column of paths. Leave --images out.")
    return listing


def is_path(text: str) -> bool:
    """Whether a word is a path rather than a dataset of the catalogue."""
    return os.sep in text or text.lower().endswith((*SUFFIXES, ".npz")) or text in (".", "..") or os.path.exists(text)


def decoded(
    files: Sequence[Encoded], size: int, channels: Channels, *, reporter: Reporter = SILENT
) -> NDArray[np.uint8]:
    """Decode all images, with the shorter side resized to `size` pixels and the central square cut out."""
    from tnlpad.data.stream import decode  # imports torch

    def one(file: Encoded) -> NDArray[np.uint8]:
        return decode(file, size, size, channels=channels)

    pixels = np.empty((len(files), channels, size, size), dtype=np.uint8)
    for row, image in enumerate(in_threads(one, files, "Decoding images", reporter)):
        pixels[row] = image
    return pixels


def dataset_of(
    listing: Listing,
    source: Path,
    images_folder: Path | None = None,
    *,
    label_column: str | None = None,
    labelled: bool = True,
    fresh: bool = False,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """Check the samples of a listing and return those that can be used."""
    for column in listing.columns:
        as_utf8(column, "the column")
    for name, classes in Counter(listing.class_names).items():
        if classes > 1:
            raise DataError(f"{source}: {classes:,} classes are called {name[:80]!r}. Give each a name of its own.")
    content = _check_content(listing, source, fresh, reporter)
    rows, problems = _usable_rows(listing, content.reasons, labelled, source)
    labels, class_names = np.full(len(rows), UNLABELLED, dtype=np.int64), tuple[str, ...]()
    if labelled:
        given = [label for row in rows.tolist() if (label := listing.labels[row]) is not None]
        labels, class_names = encoded(given, listing.class_names)
    image_info = content.images.take(rows) if content.images is not None else None
    digests = image_info.digests if image_info is not None else _chosen(content.digests, rows)
    parts = tuple(listing.parts[row] for row in rows.tolist()) if listing.parts is not None else None
    test, validation = ((parts or ()).count(part) for part in ("test", "validation"))
    ids = _chosen(listing.ids, rows)
    images = listing.images[rows] if listing.images is not None else None
    features = listing.features[rows] if listing.features is not None else None
    texts = _chosen(listing.texts, rows) if listing.texts is not None else None
    table = listing.table.take(rows) if listing.table is not None else None
    kind = _kind(listing)
    further = listing.further
    places = np.arange(len(listing.ids)) if listing.rows is None else np.array(listing.rows, dtype=np.int64)
    return OwnDataset(
        source=source,
        images_folder=images_folder,
        label_column=label_column,
        kind=kind,
        ids=ids,
        rows=places[rows],
        labels=labels,
        class_names=class_names,
        parts=parts,
        images=images,
        files=selected(listing.files, rows) if listing.files is not None else None,
        features=features,
        columns=listing.columns,
        image_info=image_info,
        digests=digests,
        problems=problems,
        further=further if further is None or len(further) == len(rows) else further.take(rows),
        picture_column=listing.picture_column,
        texts=texts,
        text_column=listing.text_column,
        table=table,
        groups=_chosen(listing.groups, rows) if listing.groups is not None else None,
        pictures=_chosen(listing.pictures, rows) if listing.pictures is not None else None,
        notes=(*listing.notes, *notes_on_classes(labels, class_names)),
        shape=DataShape(
            fingerprint=fingerprint(kind, ids, labels, class_names, parts, digests),
            kind=kind,
            samples=len(ids) - test,
            validation=validation,
            test=test,
            classes=len(class_names),
            **_sizes(listing, image_info),
        ),
    )


def _kind(listing: Listing) -> Kind:
    kinds: dict[Kind, Any] = {
        "files": listing.files,
        "images": listing.images,
        "features": listing.features,
        "text": listing.texts,
        "table": listing.table,
    }
    (kind,) = (kind for kind, content in kinds.items() if content is not None)
    return kind


def _read(source: Path, images: Path | None, options: ReadOptions) -> Listing:
    try:
        if os.path.isdir(source):
            return _read_folder(source, options)
        if not os.path.isfile(source):
            wrong = "is neither a file nor a folder" if os.path.exists(source) else "does not exist"
            raise DataError(f"{source} {wrong}. Name a folder of images, a .csv, .parquet or .npz file.")
    except OSError as error:
        raise DataError(f"{str(source)[:200]} cannot be read: {error.strerror or error}.") from error
    suffix = source.suffix.lower()
    if suffix == ".npz":
        return read_npz(source, options)
    if suffix == ".parquet" and images is None and not options.columns:
        pictures = read_picture_table(source, options)
        if pictures is not None:
            return pictures
    if suffix in SUFFIXES:
        return read_manifest(source, images, options)
    if is_image_name(source.name) and not options.labelled:
        return Listing(ids=[source.name], labels=[None], files=[str(source)])
    raise _unknown_kind(source)


def _unknown_kind(source: Path) -> DataError:
    if source.name.lower().endswith(PACKED):
        return DataError(f"{source} is packed: unpack it first, and give the folder or the table that was in it.")
    if source.suffix.lower() == ".npy":
        return DataError(
            f"{source} is one array without a name. Save it as an .npz file, with numpy.savez(path, features=..., "
            "labels=...), or images=... for pixels."
        )
    return DataError(
        f"{source} is not of a known kind. Give a folder with one folder of images per class, a table (.csv, .tsv, "
        ".txt, .jsonl, .xlsx, .parquet), an .npz file, or a folder that Hugging Face's save_to_disk wrote. Save other "
        "spreadsheets as .xlsx or CSV."
    )


def _read_folder(source: Path, options: ReadOptions) -> Listing:
    if is_hugging_face(source):
        return read_hugging_face(source, options)
    for name in ("label", "id"):
        if (column := getattr(options, name)) is not None and options.labelled:
            raise DataError(f"--{name} {column} names a column, and {source} is a folder of images: leave it out.")
    if is_shard_folder(source):
        return read_shard_folder(source, options)
    return read_folder(source) if options.labelled else read_unlabelled_folder(source)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Content:
    """Facts about the content of the listed samples.

    Args:
        digests: One for each.
        reasons: Why some cannot be used, by row.
        images: Facts about image files.
    """

    digests: Sequence[bytes]
    reasons: Mapping[int, str] = field(default_factory=dict)
    images: ImageFacts | None = None


def _check_content(listing: Listing, source: Path, fresh: bool, reporter: Reporter) -> _Content:
    if listing.files is not None:
        images, reasons = check_files(listing.files, source, fresh=fresh, reporter=reporter)
        return _Content(digests=images.digests, reasons=reasons, images=images)
    if listing.texts is not None:
        return _Content(digests=[hashlib.sha256(text.encode()).digest() for text in listing.texts])
    if listing.table is not None:
        return _Content(digests=list(listing.table.digests()))
    rows = listing.images if listing.images is not None else listing.features
    assert rows is not None, "a listing has content of one kind"
    digests = [hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest() for row in rows]
    return _Content(digests=digests, reasons=_not_finite(listing))


def _not_finite(listing: Listing) -> dict[int, str]:
    """Return why rows of features cannot be used."""
    if listing.features is None:
        return {}
    reasons = {}
    for row in np.flatnonzero(~np.isfinite(listing.features).all(1)).tolist():
        column = int(np.flatnonzero(~np.isfinite(listing.features[row]))[0])
        name = listing.columns[column]
        where = name if name == f"column {column}" else f"column {name!r}"  # arrays have no names
        reasons[row] = f"the value in {where} is missing or not finite"
    return reasons


def _usable_rows(
    listing: Listing, reasons: Mapping[int, str], labelled: bool, source: Path
) -> tuple[Index, tuple[Problem, ...]]:
    """Return the rows that can be used, and the others as problems; raise DataError if no row can be used."""
    known, count = known_labels(listing.class_names), len(listing.ids)
    usable = np.ones(count, dtype=bool)
    problems = list(listing.problems)
    for row in range(count) if labelled else sorted(reasons):
        reason = reasons.get(row) or (label_problem(listing.labels[row], known) if labelled else None)
        if reason is not None:
            usable[row] = False
            problems.append(Problem(id=listing.ids[row], reason=reason))
    if not count and not problems:
        raise DataError(f"{source} holds no samples.")
    if not usable.any():
        first = f"Sample {problems[0].id[:200]}: {problems[0].reason}."
        notes = "".join(f" Note: {note}" for note in listing.notes)
        raise DataError(f"{source}: none of the {count:,} samples can be used. {first}{notes}")
    return np.flatnonzero(usable), tuple(problems)


def _sizes(listing: Listing, image_info: ImageFacts | None) -> dict[str, Any]:
    if listing.images is not None:
        channels, height, width = listing.images.shape[1:]
        return {"channels": channels, "height": height, "width": width}
    if image_info is None:
        return {"channels": len(listing.columns) or 1, "height": 1, "width": 1}
    side = image_info.side
    return {"channels": 1 if image_info.gray else 3, "height": side, "width": side}


def _chosen(values: Sequence[Any], rows: Index) -> Sequence[Any]:
    """Return some of the values; those of a compact sequence are not made objects."""
    if isinstance(values, PathList):
        return selected(values, rows)
    return tuple(values[row] for row in rows.tolist())
