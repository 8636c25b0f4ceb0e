"""A person's own data, whatever they lie in, as one value: samples with stable ids, labels as given, and contents.

Nothing here knows which labels are right. What cannot be used is left out and listed with the reason. `shape` is what a
run has to know of the data to be configured, with a fingerprint of every id, label, part and content: a run belongs to
data with this fingerprint, wherever they lie.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.arrays import read_npz
from tnlpad.data.errors import DataError
from tnlpad.data.folder import read_folder, read_unlabelled_folder
from tnlpad.data.hugging_face import is_hugging_face, read_hugging_face, read_picture_table
from tnlpad.data.listing import Encoded, Listing, Part, Problem
from tnlpad.data.manifest import SUFFIXES, read_manifest
from tnlpad.data.pixels import Channels, Seen, look
from tnlpad.data.reporting import SILENT, Reporter
from tnlpad.data.stream import decode
from tnlpad.types import Index, Labels

Kind = Literal["images", "files", "features"]
AT_ONCE = 256
NAME_PREFIX = "own-"
DIGITS_IN_NAME = 10
UNLABELLED = -1


@dataclass(frozen=True, kw_only=True)
class DataShape:
    """What configures a run on own data, and by its fingerprint which data they are.

    Args:
        fingerprint: SHA-256 over every sample's id, label, part and content.
        kind: Images in memory, images in files, or rows of features.
        samples: To train on or to hold out.
        validation: Those of them that the data themselves hold out; 0 if they leave that open.
        test: Samples of a test part; 0 if there is none.
        classes: How many classes there are.
        channels: Of images; of features, the number of columns.
        height, width: Of images in memory; of files, the usual shorter side; of features, 1.
    """

    fingerprint: str
    kind: Kind
    samples: int
    validation: int
    test: int
    classes: int
    channels: int
    height: int
    width: int

    @property
    def name(self) -> str:
        """In place of a dataset's name in the catalogue."""
        return NAME_PREFIX + self.fingerprint[:DIGITS_IN_NAME]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnDataset:
    """The samples that can be used, in a stable order.

    Args:
        source: Where they come from.
        images_folder: What the paths of a table are relative to, if that was said.
        label_column: What holds the labels there, if that was said.
        kind: Which of `images`, `files` and `features` they are.
        ids: Unique.
        labels: Places in `class_names`; −1 where the data were opened as unlabelled.
        parts: "train", "validation" or "test" for each sample; None if the data have no parts.
        images: uint8, samples × channels × height × width.
        files: Paths, or the contents of such files.
        features: float32, samples × columns.
        columns: The names of those.
        seen: Of image files: size, mode and digest.
        digests: Of every sample's content.
        problems: What was left out.
        notes: What else their owner should know.
    """

    source: Path
    images_folder: Path | None
    label_column: str | None
    kind: Kind
    ids: tuple[str, ...]
    labels: Labels
    class_names: tuple[str, ...]
    parts: tuple[Part, ...] | None
    images: NDArray[np.uint8] | None
    files: Sequence[Encoded] | None
    features: NDArray[np.float32] | None
    columns: tuple[str, ...]
    seen: tuple[Seen, ...] | None
    digests: tuple[bytes, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    shape: DataShape

    @property
    def paths(self) -> tuple[str | None, ...]:
        """Of every sample its file, where it has one of its own."""
        if self.files is None:
            return (None,) * len(self.ids)
        return tuple(each if isinstance(each, str) else None for each in self.files)

    def indices(self, *parts: Part) -> Index:
        """The samples of these parts; where there are none, all are to train on."""
        if self.parts is None:
            return np.arange(len(self.ids) if "train" in parts else 0)
        return np.flatnonzero(np.isin(np.array(self.parts), parts))


def open_dataset(
    path: Path | str,
    *,
    images: Path | str | None = None,
    label: str | None = None,
    labelled: bool = True,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """Read a folder of images, a CSV or Parquet table, an .npz file or a Hugging Face dataset on disk.

    Every image is decoded once, so that none fails in the middle of a training.

    Args:
        path: Where the data lie.
        images: For tables, the folder that their paths are relative to; the table's own when not given.
        label: For tables, the column of the classes, and for .npz the array; one with a usual name when not given.
        labelled: Whether samples must have labels. Without, labels are not looked at, and an image folder is every
            image below it: data to predict on.
        reporter: Told how far it has come.
    """
    source, folder = Path(path), Path(images) if images is not None else None
    listing = _read(source, folder, label, labelled)
    if folder is not None and (listing.files is None or os.path.isdir(source)):
        raise DataError(f"--images {folder} is for tables with a column of paths, and {source} is none: leave it out.")
    return dataset_of(listing, source, folder, label_column=label, labelled=labelled, reporter=reporter)


def dataset_of(
    listing: Listing,
    source: Path,
    images_folder: Path | None = None,
    *,
    label_column: str | None = None,
    labelled: bool = True,
    reporter: Reporter = SILENT,
) -> OwnDataset:
    """The samples of a listing, each looked at."""
    return _dataset(source, images_folder, label_column, listing, _looked_at(listing, reporter), labelled)


def is_path(text: str) -> bool:
    """Whether a word that could name a dataset of the catalogue is a path."""
    return os.sep in text or text.endswith((*SUFFIXES, ".npz")) or text in (".", "..") or os.path.exists(text)


def _read(source: Path, images: Path | None, label: str | None, labelled: bool) -> Listing:
    try:
        if os.path.isdir(source):
            if is_hugging_face(source):
                return read_hugging_face(source, label=label, labelled=labelled)
            if label is not None and labelled:
                raise DataError(
                    f"--label {label} names a column, and in {source} the folders are the classes: leave it out."
                )
            return read_folder(source) if labelled else read_unlabelled_folder(source)
        if not os.path.isfile(source):
            wrong = "is neither a file nor a folder" if os.path.exists(source) else "does not exist"
            raise DataError(f"{source} {wrong}. Name a folder of images, a .csv, .parquet or .npz file.")
    except OSError as error:
        raise DataError(f"{str(source)[:200]} cannot be read: {error.strerror or error}.") from error
    suffix = source.suffix.lower()
    if suffix == ".npz":
        return read_npz(source, label=label, labelled=labelled)
    if suffix == ".parquet" and images is None:
        pictures = read_picture_table(source, label=label, labelled=labelled)
        if pictures is not None:
            return pictures
    if suffix in SUFFIXES:
        return read_manifest(source, images, label=label, labelled=labelled)
    raise DataError(
        f"{source} is of no known kind. Give a folder with a folder of images per class, a table (.csv, .tsv, "
        ".parquet), an .npz file, or a folder that Hugging Face's save_to_disk wrote."
    )


Looked = list[Seen | bytes | str]  # what is known of each sample: an image, a digest, or why it cannot be used


def _looked_at(listing: Listing, reporter: Reporter) -> Looked:
    files = listing.files
    if files is not None:
        looked: Looked = []
        # Threads suffice: the decoder does its work outside the interpreter's lock.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(files), AT_ONCE):
                looked.extend(pool.map(look, files[start : start + AT_ONCE]))
                reporter.progress("Looking at images", len(looked), len(files))
        return looked
    rows = listing.images if listing.images is not None else listing.features
    assert rows is not None, "a listing has files, images or features"
    digests: Looked = [hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest() for row in rows]
    if listing.features is not None:
        for row in np.flatnonzero(~np.isfinite(listing.features).all(1)):
            column = int(np.flatnonzero(~np.isfinite(listing.features[row]))[0])
            digests[row] = f"has no finite number in column {listing.columns[column]!r}"
    return digests


def _dataset(
    source: Path, folder: Path | None, label_column: str | None, listing: Listing, looked: Looked, labelled: bool
) -> OwnDataset:
    known = range(len(listing.class_names)) if listing.class_names is not None else None
    if labelled:
        reasons = [_reason_left_out(*pair, known) for pair in zip(looked, listing.labels, strict=True)]
    else:
        reasons = [each if isinstance(each, str) else None for each in looked]
    kept = [row for row, reason in enumerate(reasons) if reason is None]
    left_out = [Problem(id=listing.ids[row], reason=reason) for row, reason in enumerate(reasons) if reason is not None]
    problems = (*listing.problems, *left_out)
    if not reasons and not problems:
        raise DataError(f"{source} holds no samples.")
    if not kept:
        reason = f"{problems[0].id[:200]}: {problems[0].reason}"
        notes = "".join(f" Note: {note}" for note in listing.notes)
        raise DataError(f"{source}: none of its {len(reasons):,} samples can be used; {reason}.{notes}")
    labels, class_names = np.full(len(kept), UNLABELLED, dtype=np.int64), tuple[str, ...]()
    if labelled:
        labels, class_names = _encoded([listing.labels[row] for row in kept], listing.class_names)
    seen = tuple(each for row in kept if isinstance(each := looked[row], Seen))
    digests = tuple(_digest(looked[row]) for row in kept)
    parts = tuple(listing.parts[row] for row in kept) if listing.parts is not None else None
    ids = tuple(listing.ids[row] for row in kept)
    images = listing.images[kept] if listing.images is not None else None
    features = listing.features[kept] if listing.features is not None else None
    kind: Kind = "files" if listing.files is not None else "images" if images is not None else "features"
    return OwnDataset(
        source=source,
        images_folder=folder,
        label_column=label_column,
        kind=kind,
        ids=ids,
        labels=labels,
        class_names=class_names,
        parts=parts,
        images=images,
        files=_Chosen(listing.files, kept) if listing.files is not None else None,
        features=features,
        columns=listing.columns,
        seen=seen or None,
        digests=digests,
        problems=problems,
        notes=listing.notes,
        shape=DataShape(
            fingerprint=_fingerprint(kind, ids, labels, class_names, parts, digests),
            kind=kind,
            samples=len(ids) - _count(parts, "test"),
            validation=_count(parts, "validation"),
            test=_count(parts, "test"),
            classes=len(class_names),
            **_sizes(images, features, seen),
        ),
    )


def _reason_left_out(looked: Seen | bytes | str, label: str | int | None, known: range | None) -> str | None:
    if isinstance(looked, str):
        return looked
    if label is None:
        return "has no label"
    if known is not None and label not in known:
        return f"has the label {label!r}, and there are {len(known)} classes"
    return None


def _encoded(labels: Sequence[str | int | None], names: tuple[str, ...] | None) -> tuple[Labels, tuple[str, ...]]:
    """Labels as places in the list of classes; numbers in the order of their size, other names in that of letters."""
    if names is not None:
        return np.array(labels, dtype=np.int64), names
    found = sorted({str(label) for label in labels}, key=_order)
    place = {name: number for number, name in enumerate(found)}
    return np.array([place[str(label)] for label in labels], dtype=np.int64), tuple(found)


def _order(name: str) -> tuple[bool, int, str]:
    number = name.removeprefix("-")
    whole = number.isascii() and number.isdigit() and len(number) < 19
    return (not whole, int(name) if whole else 0, name)


def _digest(looked: Seen | bytes | str) -> bytes:
    assert not isinstance(looked, str), "left out"
    return looked.digest if isinstance(looked, Seen) else looked


def _count(parts: Sequence[Part] | None, part: Part) -> int:
    return parts.count(part) if parts is not None else 0


def _sizes(
    images: NDArray[np.uint8] | None, features: NDArray[np.float32] | None, seen: Sequence[Seen]
) -> dict[str, Any]:
    if images is not None:
        channels, height, width = images.shape[1:]
        return {"channels": channels, "height": height, "width": width}
    if features is not None:
        return {"channels": features.shape[1], "height": 1, "width": 1}
    side = int(np.median([min(each.width, each.height) for each in seen]))
    return {"channels": 1 if all(each.gray for each in seen) else 3, "height": side, "width": side}


def _fingerprint(
    kind: Kind,
    ids: Sequence[str],
    labels: Labels,
    class_names: Sequence[str],
    parts: Sequence[Part] | None,
    digests: Sequence[bytes],
) -> str:
    """Every text with its length before it, so that no two lists of samples give the same bytes."""
    total = hashlib.sha256()

    def add(text: str) -> None:
        content = text.encode()
        total.update(len(content).to_bytes(8, "big") + content)

    for text in (kind, str(len(class_names)), *class_names):
        add(text)
    for row, name in enumerate(ids):
        add(name)
        add(str(labels[row]))
        add(parts[row] if parts is not None else "")
        total.update(digests[row])
    return total.hexdigest()


class _Chosen(Sequence[Any]):
    """Some entries of a sequence, without taking them out of it."""

    def __init__(self, entries: Sequence[Any], places: Sequence[int]) -> None:
        self.entries, self.places = entries, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.entries[each] for each in self.places[place]]
        return self.entries[self.places[place]]


def decoded(
    files: Sequence[Encoded], size: int, channels: Channels, *, reporter: Reporter = SILENT
) -> NDArray[np.uint8]:
    """All of the images as one array: shorter side to `size` pixels, the square in the middle cut out."""
    pixels = np.empty((len(files), channels, size, size), dtype=np.uint8)

    def place(row: int) -> None:
        pixels[row] = decode(files[row], size, size, channels=channels)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(files), AT_ONCE):
            done = list(pool.map(place, range(start, min(start + AT_ONCE, len(files)))))
            reporter.progress("Decoding images", start + len(done), len(files))
    return pixels
