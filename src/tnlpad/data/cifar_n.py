"""CIFAR-10N and CIFAR-100N: labels that people gave to the training images of CIFAR.

Paper: J. Wei et al., "Learning with Noisy Labels Revisited: A Study Using Real-World Human Annotations", ICLR 2022.
Published as a torch file that holds a pickled dict of NumPy arrays and lists, in the order of CIFAR's Python batches;
read here without torch and without running the pickle. The same labels are also read from an .npz of plain arrays.
"""

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.cifar import labels_from_array, labels_from_list
from tnlpad.data.class_names import CIFAR100_COARSE
from tnlpad.data.files import read_bounded
from tnlpad.data.unpickle import unpickle
from tnlpad.errors import DataError
from tnlpad.types import Labels, NoisyLabels, Transition

# Label sets by the names used here, and how many of the 50,000 labels of each are wrong. CIFAR-10N: three people per
# image (random1 to random3), their majority (aggre), and one of the wrong answers if there is any (worse). CIFAR-100N:
# one person per image, who chose the super-class first.
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

MOST_BYTES = 1 << 25
TORCH_ZIP_PICKLE = "data.pkl"
TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # the first of the pickles in torch's older format


def read_cifar_n(path: Path, *, dataset: str, num_classes: int) -> dict[str, Labels]:
    """All label sets of a published .pt or of an .npz, by the names in LABEL_SETS, with `clean` among them."""
    content = read_bounded(path, MOST_BYTES)
    stored = _npz(content, path) if path.suffix == ".npz" else _torch_file(content, path)
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
    """One label set beside the clean labels, which must equal those that came with the images, one by one.

    The order of the images differs between distributions of CIFAR; labels in another order would be wrong in silence.
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
    """The measured P(given j | clean i); a class without images keeps its label."""
    counts: Transition = np.zeros((num_classes, num_classes))
    np.add.at(counts, (clean, given), 1)
    empty = counts.sum(axis=1) == 0
    counts[empty, empty] = 1
    counts /= counts.sum(axis=1, keepdims=True)
    return counts


def _labels(stored: Mapping[Any, Any], name: str, num_classes: int, path: Path) -> Labels:
    """A label set under its published name (worse_label, random_label1) or under ours."""
    base = name.rstrip("123")
    published = f"{base}_label{name[len(base) :]}"
    found = [key for key in (published, name) if key in stored]
    if not found:
        raise DataError(f"{path} has no entry {published!r}: it is not the published file of this dataset.")
    values = stored[found[0]]
    classes = len(CIFAR100_COARSE) if name.endswith("_coarse") else num_classes
    where = f"{path} ({found[0]})"
    if isinstance(values, np.ndarray):
        return labels_from_array(values, num_classes=classes, where=where)
    if isinstance(values, list):
        return labels_from_list(values, num_classes=classes, where=where)
    raise DataError(f"{where} is a {type(values).__name__}: it must be an array or a list of labels.")


def _torch_file(content: bytes, path: Path) -> Mapping[Any, Any]:
    if content[:2] == b"PK":
        with _opened_zip(content, path) as archive:
            pickles = [info for info in archive.infolist() if info.filename.split("/")[-1] == TORCH_ZIP_PICKLE]
            if len(pickles) != 1:
                raise DataError(f"{path} holds {len(pickles)} files {TORCH_ZIP_PICKLE}: a torch file holds one.")
            stored, _ = unpickle(_member(archive, pickles[0], path), where=path)
    else:
        stored = _older_torch_file(content, path)
    if not isinstance(stored, dict):
        raise DataError(f"{path} holds a {type(stored).__name__}: CIFAR-N is a dict of label sets.")
    return stored


def _older_torch_file(content: bytes, path: Path) -> Any:
    """Before version 1.6 torch wrote four pickles in a row: magic number, version, system, and the object."""
    magic, end = unpickle(content, where=path)
    if type(magic) is not int or magic != TORCH_MAGIC:
        raise DataError(f"{path} is not a file saved by torch.")
    for _ in ("version", "system"):
        _, end = unpickle(content, where=path, start=end)
    return unpickle(content, where=path, start=end)[0]


def _npz(content: bytes, path: Path) -> dict[str, NDArray[Any]]:
    with _opened_zip(content, path) as archive:
        return {
            info.filename.removesuffix(".npy"): _npy(_member(archive, info, path), path) for info in archive.infolist()
        }


def _npy(content: bytes, path: Path) -> NDArray[Any]:
    """A plain array. Its header is checked against the bytes that follow before anything is allocated."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise DataError(f"{path} holds an array in version {version} of its format: 1.0 is expected.")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    rest = content[stream.tell() :]
    if dtype.hasobject or len(shape) != 1 or math.prod(shape) * dtype.itemsize != len(rest):
        raise DataError(f"{path} holds an array whose header ({dtype}, shape {shape}) does not fit its content.")
    return np.frombuffer(rest, dtype)


@contextmanager
def _opened_zip(content: bytes, path: Path) -> Iterator[zipfile.ZipFile]:
    # A damaged archive makes zipfile and NumPy's header parser raise any of these.
    damage = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, ValueError, KeyError)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive
    except (*damage, NotImplementedError, RuntimeError, IndexError, TypeError, SyntaxError, OverflowError) as error:
        raise DataError(f"{path} is damaged or truncated ({str(error) or type(error).__name__:.120}).") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    """A file of the archive; one that would unpack to more than any published file is refused unopened."""
    if info.file_size > MOST_BYTES:
        raise DataError(f"{path}: {info.filename!r:.80} announces {info.file_size:,} bytes, more than it can hold.")
    with archive.open(info) as stream:
        return stream.read(MOST_BYTES)
