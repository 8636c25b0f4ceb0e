"""IDX, the format of MNIST: a big-endian magic number, the dimensions, then unsigned bytes, row after row.

The 1,797 digits of 8x8 pixels that come with scikit-learn. They need no files, and nobody published a split.

Read a dataset by its name, from the published layout below a root.
"""

import math
import shlex
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.catalogue import (
    CIFAR10_BINARY_TEST,
    CIFAR10_BINARY_TRAIN,
    CIFAR10_PYTHON_TEST,
    CIFAR10_PYTHON_TRAIN,
    DIGITS,
    IDX_TEST,
    IDX_TRAIN,
    DatasetInfo,
    Layout,
    find,
)
from tnlpad.data.cifar import CifarImages, labels_from_array, read_cifar_binary, read_cifar_python
from tnlpad.data.cifar_n import LABEL_SETS, noisy_labels, read_cifar_n
from tnlpad.data.class_names import CIFAR100_COARSE
from tnlpad.data.files import default_root, is_file, present, read_bounded
from tnlpad.data.photographs import CLOTHING1M_SPLITS, read_clothing1m, read_food101
from tnlpad.data.photographs import FOOD101_CLASS_LIST as FOOD101_CLASS_LIST
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles, Labels, NoisyLabels, RawDataset

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 4


def read_idx(path: Path, *, most_bytes: int) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes; the file may be compressed, then its name ends in .gz."""
    content = read_bounded(path, most_bytes)
    if len(content) < 4:
        raise DataError(f"{path} has {len(content)} bytes: an IDX file begins with a magic number of 4.")
    zero, kind, dimensions = struct.unpack(">HBB", content[:4])
    if zero != 0 or kind != UNSIGNED_BYTE or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise DataError(
            f"{path} begins with 0x{content[:4].hex()}: an IDX file of unsigned bytes begins with 0x000008 and the "
            f"number of dimensions, 1 to {MOST_DIMENSIONS}."
        )
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path} ends within its header, after {len(content)} bytes: it is truncated.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if math.prod(shape) != len(content) - header:
        raise DataError(
            f"{path} announces {' x '.join(map(str, shape))} = {math.prod(shape):,} bytes of data but holds "
            f"{len(content) - header:,}: it is truncated or damaged."
        )
    # A copy, because arrays that share a file's immutable bytes cannot be written to.
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def read_digits(split: str) -> RawDataset:
    """The first four fifths for training, the rest for testing; gray values 0 to 16 are stretched to 0 to 255."""
    from sklearn.datasets import load_digits  # here, because it takes most of a second

    bunch = load_digits()
    # 255/16 is not whole: adding half of the divisor rounds to the nearest, and no two values become one.
    images = ((bunch.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)[:, None]
    chosen = slice(DIGITS.train_size) if split == "train" else slice(DIGITS.train_size, None)
    return RawDataset(
        images=images[chosen],
        labels=bunch.target[chosen].astype(np.int64),
        class_names=DIGITS.class_names,
    )


InMemory = Literal["mnist", "fashion_mnist", "cifar10", "cifar100", "cifar10n", "cifar100n", "digits"]
OnDisk = Literal["food101", "clothing1m"]


@overload
def load(name: InMemory, root: Path | str | None = None, split: str = "train") -> RawDataset: ...


@overload
def load(name: OnDisk, root: Path | str | None = None, split: str = "train") -> ImageFiles: ...


@overload
def load(name: str, root: Path | str | None = None, split: str = "train") -> RawDataset | ImageFiles: ...


def load(name: str, root: Path | str | None = None, split: str = "train") -> RawDataset | ImageFiles:
    """The images of a split, `train` or `test`, with the labels as published.

    Food-101 and Clothing1M stay on disk and come as paths; Clothing1M also has `validation` and `clean_train`. CIFAR-N
    comes with CIFAR's own labels, the truth; `human_labels` gives those of people.

    Args:
        name: A name of the catalogue.
        root: The folder of all datasets; `default_root()` when not given.
        split: Which part.
    """
    info = find(name)
    splits = tuple(CLOTHING1M_SPLITS) if name == "clothing1m" else ("train", "test")
    if split not in splits:
        raise ValueError(f"split={split!r}: {name} has {', '.join(splits)}.")
    if info.bundled:
        return read_digits(split)
    if info.images_of:
        return load(info.images_of, root, split)
    return read(info, Path(root) if root is not None else default_root(), split)


def human_labels(name: str, label_set: str, root: Path | str | None = None) -> NoisyLabels:
    """The labels that people gave to CIFAR's training images, beside the clean ones and the measured transition.

    Args:
        name: `cifar10n` or `cifar100n`.
        label_set: One of LABEL_SETS[name], such as `worse`.
        root: The folder that holds the labels and the images; `default_root()` when not given.
    """
    info = find(name)
    if info.images_of is None:
        raise ValueError(f"name={name!r}: only {' and '.join(LABEL_SETS)} have labels given by people.")
    if label_set not in LABEL_SETS[name]:
        raise ValueError(f"label_set={label_set!r}: {name} has {', '.join(LABEL_SETS[name])}.")
    folder = Path(root) if root is not None else default_root()
    return read_human_labels(info, find(info.images_of), folder, label_set)


def read_human_labels(info: DatasetInfo, images_info: DatasetInfo, root: Path, label_set: str) -> NoisyLabels:
    """As `human_labels`, for records of the catalogue."""
    layout = require_layout(info, root)
    path = root / layout.folder / layout.files[0].path
    labels = read_cifar_n(path, dataset=info.name, num_classes=info.num_classes)
    coarse = label_set.endswith("_coarse")
    on_disk = _training_labels(images_info, root, coarse=coarse)
    num_classes = len(CIFAR100_COARSE) if coarse else info.num_classes
    return noisy_labels(labels, label_set, on_disk=on_disk, where=path, num_classes=num_classes)


def read(info: DatasetInfo, root: Path, split: str) -> RawDataset | ImageFiles:
    """As `load`, for a record of the catalogue: the first of its layouts that is complete below the root."""
    layout = require_layout(info, root)
    folder = root / layout.folder
    if layout.format == "food101":
        return read_food101(folder, split)
    if layout.format == "clothing1m":
        return read_clothing1m(folder, split)
    try:
        dataset = _READERS[layout.format](info, layout, root, split)
    except DataError as error:
        raise DataError(f"{error} {get_again(info, root)}") from error
    expected = info.train_size if split == "train" else info.test_size
    if len(dataset.images) != expected or len(dataset.labels) != expected:
        raise DataError(
            f"{folder} holds {len(dataset.images):,} images and {len(dataset.labels):,} labels of the {split} split; "
            f"{info.name} has {expected:,}. {get_again(info, root)}"
        )
    return dataset


def get_again(info: DatasetInfo, root: Path) -> str:
    """The way out when a file is missing or damaged."""
    return f"Get it with `{command('get', info, root)}`."


def command(verb: str, info: DatasetInfo, root: Path) -> str:
    """What to type to have `tnlpad data` do something about a dataset below this root."""
    words = ["tnlpad", "data", verb, info.name]
    if root != default_root():
        words += ["--root", str(root)]
    return shlex.join(words)


def complete_layout(info: DatasetInfo, root: Path) -> Layout | None:
    """The first layout of which every file is there; nothing is said about their content."""
    for layout in info.layouts:
        folder = root / layout.folder
        if layout.format == "food101":
            complete = is_file(folder / FOOD101_CLASS_LIST)
        elif layout.format == "clothing1m":
            complete = any(is_file(folder / keys) for keys, _, _ in CLOTHING1M_SPLITS.values())
        else:
            complete = all(present(root, layout, file) for file in layout.files)
        if complete:
            return layout
    return None


def require_layout(info: DatasetInfo, root: Path) -> Layout:
    """The layout to read; an error that says where the data were looked for if there is none."""
    layout = complete_layout(info, root)
    if layout is not None:
        return layout
    begun = begun_layout(info, root)
    if begun is not None:
        layout, missing = begun
        raise DataError(f"{root / layout.folder} lacks {', '.join(missing)} of {info.name}. {get_again(info, root)}")
    folders = " or ".join(dict.fromkeys(str(root / each.folder) for each in info.layouts))
    way_out = info.by_hand or get_again(info, root)
    raise DataError(f"{info.name} is not in {folders}. {way_out} Or name another folder as the root.")


def begun_layout(info: DatasetInfo, root: Path) -> tuple[Layout, list[str]] | None:
    """The first layout of which some files are there and others, which are named, are not."""
    for layout in info.layouts:
        missing = [file.path for file in layout.files if not present(root, layout, file)]
        if 0 < len(missing) < len(layout.files):
            return layout, missing
    return None


def _idx(info: DatasetInfo, layout: Layout, root: Path, split: str) -> RawDataset:
    names = IDX_TRAIN if split == "train" else IDX_TEST
    arrays = []
    for file in (file for name in names for file in layout.files if file.path == name):
        path = present(root, layout, file)
        assert path is not None, "the layout was found complete"
        assert file.size is not None, "the catalogue knows the size of IDX files"
        arrays.append((path, read_idx(path, most_bytes=file.size)))
    (images_path, images), (labels_path, labels) = arrays
    if info.image_shape is None or images.shape[1:] != info.image_shape[1:]:
        raise DataError(f"{images_path} has shape {images.shape}: images of {info.name} have {info.image_shape}.")
    return RawDataset(
        images=images[:, None],
        labels=labels_from_array(labels, num_classes=info.num_classes, where=labels_path),
        class_names=info.class_names,
    )


def _cifar(info: DatasetInfo, layout: Layout, root: Path, split: str) -> RawDataset:
    part = read_cifar_images(info, layout, root, split)
    return RawDataset(images=part.images, labels=part.labels, class_names=info.class_names)


def read_cifar_images(info: DatasetInfo, layout: Layout, root: Path, split: str) -> CifarImages:
    """The images of a split in whichever form they lie there, with super-classes if there are any."""
    train = split == "train"
    names: tuple[str, ...]
    if layout.format == "cifar10-binary":
        names = CIFAR10_BINARY_TRAIN if train else (CIFAR10_BINARY_TEST,)
    elif layout.format == "cifar10-python":
        names = CIFAR10_PYTHON_TRAIN if train else (CIFAR10_PYTHON_TEST,)
    else:
        names = (split + (".bin" if layout.format == "cifar100-binary" else ""),)
    reader = read_cifar_binary if layout.format.endswith("binary") else read_cifar_python
    coarse = layout.format.startswith("cifar100")
    return reader([root / layout.folder / name for name in names], num_classes=info.num_classes, coarse=coarse)


def _training_labels(info: DatasetInfo, root: Path, *, coarse: bool) -> Labels:
    layout = require_layout(info, root)
    images = read_cifar_images(info, layout, root, "train")
    labels = images.coarse_labels if coarse else images.labels
    assert labels is not None, "only CIFAR-100N has labels of super-classes"
    return labels


_READERS: dict[str, Callable[[DatasetInfo, Layout, Path, str], RawDataset]] = {
    "idx": _idx,
    "cifar10-binary": _cifar,
    "cifar10-python": _cifar,
    "cifar100-binary": _cifar,
    "cifar100-python": _cifar,
}
