"""Read CIFAR-10N and CIFAR-100N: labels that people gave to the training images of CIFAR.

Paper: J. Wei et al., "Learning with Noisy Labels Revisited: A Study Using Real-World Human Annotations", ICLR 2022.
Published as a torch file with a pickled dict of NumPy arrays and lists, in the order of CIFAR's Python batches. It is
read without torch. The same labels are also read from an .npz of plain arrays.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tnlpad.array_files import ArrayFile
from tnlpad.data.cifar import SUPERCLASSES, checked_labels
from tnlpad.data.files import read_bounded
from tnlpad.data.unpickle import unpickle
from tnlpad.errors import DataError
from tnlpad.types import Labels, NoisyLabels, Transition

# Label sets, and how many of the 50,000 labels of each are wrong. CIFAR-10N: three people per image (random1 to
# random3), their majority (aggre), and one of the wrong answers if there is any (worse). CIFAR-100N: one person per
# image, who chose the superclass first.
LABELS_PER_SET = 50_000
WRONG_LABELS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "cifar10n": {"aggre": 4_505, "random1": 8_617, "random2": 9_061, "random3": 8_820, "worse": 20_104},
        "cifar100n": {"noisy": 20_100, "noisy_coarse": 13_202},
    }
)
LABEL_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {dataset: tuple(sets) for dataset, sets in WRONG_LABELS.items()}
)
CLEAN, CLEAN_COARSE = "clean", "clean_coarse"

MAX_FILE_BYTES = 1 << 25
DAMAGED = "It is damaged or not as published."
TORCH_ZIP_PICKLE = "data.pkl"
TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # first of the pickles in torch's older format


def wrong_label_share(dataset: str, label_set: str) -> float | None:
    """Return the published share of wrong labels, to four decimals; None for an unknown label set."""
    wrong = WRONG_LABELS.get(dataset, {}).get(label_set)
    return round(wrong / LABELS_PER_SET, 4) if wrong is not None else None


def read_cifar_n(path: Path, *, dataset: str, num_classes: int) -> dict[str, Labels]:
    """Read all label sets of a .pt or .npz file, by the names in LABEL_SETS, and the clean labels.

    The caller compares a .pt file with its published checksum first.
    """
    stored = ArrayFile(path, way_out=DAMAGED) if path.suffix == ".npz" else _torch_file(path)
    wanted = [*LABEL_SETS[dataset], CLEAN]
    if dataset == "cifar100n":
        wanted.append(CLEAN_COARSE)
    labels = {name: _labels(stored, name, num_classes, path) for name in wanted}
    lengths = {len(each) for each in labels.values()}
    if len(lengths) != 1:
        raise DataError(f"{path} holds label sets of different lengths ({sorted(lengths)}): it is damaged.")
    return labels


def noisy_labels(
    labels: Mapping[str, Labels], label_set: str, *, on_disk: Labels, where: Path, num_classes: int
) -> NoisyLabels:
    """Return one label set with the clean labels, after comparing those with the labels of the images.

    The order of the images differs between distributions of CIFAR, which would make the labels silently wrong.
    """
    clean = labels[CLEAN_COARSE if label_set.endswith("_coarse") else CLEAN]
    if len(clean) != len(on_disk):
        raise DataError(f"{where} labels {len(clean):,} images, but {len(on_disk):,} training images are on disk.")
    different = np.flatnonzero(clean != on_disk)
    if different.size:
        raise DataError(
            f"{where}: its clean labels differ from those of the images on disk for {different.size:,} of "
            f"{len(clean):,} images, first for image {different[0]}. The images are in another order or of another "
            "dataset: get the published CIFAR files."
        )
    given = labels[label_set]
    return NoisyLabels(given=given, clean=clean, transition=_transition(given, clean, num_classes))


def _transition(given: Labels, clean: Labels, num_classes: int) -> Transition:
    """Return the measured P(given j | clean i); a class without images keeps its label."""
    counts: Transition = np.zeros((num_classes, num_classes))
    np.add.at(counts, (clean, given), 1)
    empty = counts.sum(axis=1) == 0
    counts[empty, empty] = 1
    counts /= counts.sum(axis=1, keepdims=True)
    return counts


def _labels(stored: Mapping[Any, Any], name: str, num_classes: int, path: Path) -> Labels:
    """Return a label set by its published key (worse_label, random_label1) or by our name for it."""
    base = name.rstrip("123")
    published = f"{base}_label{name[len(base) :]}"
    found = [key for key in (published, name) if key in stored]
    if not found:
        raise DataError(f"{path} has no entry {published!r}: it is not the published file of this dataset.")
    values = stored[found[0]]
    where = f"{path} ({found[0]})"
    if not isinstance(values, (np.ndarray, list)):
        raise DataError(f"{where} is a {type(values).__name__}: it must be an array or a list of labels.")
    classes = SUPERCLASSES if name.endswith("_coarse") else num_classes
    return checked_labels(values, num_classes=classes, where=where)


def _torch_file(path: Path) -> Mapping[Any, Any]:
    content = read_bounded(path, MAX_FILE_BYTES)
    if content[:2] == b"PK":
        with _opened_zip(content, path) as archive:
            pickles = [info for info in archive.infolist() if info.filename.split("/")[-1] == TORCH_ZIP_PICKLE]
            if len(pickles) != 1:
                raise DataError(f"{path} holds {len(pickles)} files {TORCH_ZIP_PICKLE}: a torch file holds one.")
            stored = unpickle(io.BytesIO(_member(archive, pickles[0], path)), where=path)
    else:
        # Before version 1.6 torch wrote four pickles in a row: magic number, version, system, and the object.
        stream = io.BytesIO(content)
        magic = unpickle(stream, where=path)
        if type(magic) is not int or magic != TORCH_MAGIC:
            raise DataError(f"{path} is not a file saved by torch.")
        _version, _system, stored = (unpickle(stream, where=path) for _ in range(3))
    if not isinstance(stored, dict):
        raise DataError(f"{path} holds a {type(stored).__name__}: CIFAR-N is a dict of label sets.")
    return stored


@contextmanager
def _opened_zip(content: bytes, path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive
    except DataError:
        raise
    except Exception as error:  # zipfile and its decompressors raise anything on damaged bytes
        raise DataError(f"{path} is damaged or truncated ({str(error) or type(error).__name__:.120}).") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    """Read a file of the archive, unless it would unpack to more than any published file."""
    if info.file_size > MAX_FILE_BYTES:
        raise DataError(f"{path}: {info.filename!r:.80} announces {info.file_size:,} bytes, more than it can hold.")
    with archive.open(info) as stream:
        return stream.read(MAX_FILE_BYTES)
