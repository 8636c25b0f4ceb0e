"""Load datasets of the catalogue by name, from their published files below a root."""

import math
import os
import shlex
import struct
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.catalogue import DatasetInfo, Layout, find
from tnlpad.data.cifar import SUPERCLASSES, CifarImages, checked_labels, read_cifar_binary, read_cifar_python
from tnlpad.data.cifar_n import LABEL_SETS, noisy_labels, read_cifar_n
from tnlpad.data.files import default_root, present, read_bounded, require_published
from tnlpad.data.photographs import CLOTHING1M_SPLITS, FOOD101_CLASS_LIST, read_clothing1m, read_food101
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles, Labels, NoisyLabels, RawDataset

InMemory = Literal["mnist", "fashion_mnist", "cifar10", "cifar100", "cifar10n", "cifar100n", "digits"]
OnDisk = Literal["food101", "clothing1m"]
IDX_UNSIGNED_BYTE = 0x08
IDX_MAX_DIMENSIONS = 4


@overload
def load(
    name: InMemory, root: Path | str | None = None, split: str = "train", resize: int | None = None
) -> RawDataset: ...


@overload
def load(
    name: OnDisk, root: Path | str | None = None, split: str = "train", resize: int | None = None
) -> ImageFiles: ...


@overload
def load(
    name: str, root: Path | str | None = None, split: str = "train", resize: int | None = None
) -> RawDataset | ImageFiles: ...


def load(
    name: str, root: Path | str | None = None, split: str = "train", resize: int | None = None
) -> RawDataset | ImageFiles:
    """Load the images of a split with the labels as published.

    Food-101 and Clothing1M stay on disk and are returned as paths. CIFAR-N is returned with CIFAR's own, clean labels;
    `human_labels` returns the noisy ones.

    Args:
        name: Name in the catalogue.
        root: Folder of all datasets (default: `default_root()`).
        split: `train` or `test`; Clothing1M also has `validation` and `clean_train`.
        resize: Pixels of the shorter side to which images on disk will be resized. Those that were prepared for it
            are used if there are any (default: none).
    """
    info = find(name)
    splits = tuple(CLOTHING1M_SPLITS) if name == "clothing1m" else ("train", "test")
    if split not in splits:
        raise ValueError(f"split={split!r}: {name} has {', '.join(splits)}.")
    if info.bundled:
        return read_digits(split)
    if info.images_of:
        return load(info.images_of, root, split)
    return read(info, Path(root) if root is not None else default_root(), split, resize)


def human_labels(name: str, label_set: str, root: Path | str | None = None) -> NoisyLabels:
    """Load labels that people gave to CIFAR's training images, with the clean ones and the measured transition.

    Args:
        name: `cifar10n` or `cifar100n`.
        label_set: One of LABEL_SETS[name], such as `worse`.
        root: Folder of the labels and the images (default: `default_root()`).
    """
    info = find(name)
    if info.images_of is None:
        raise ValueError(f"name={name!r}: only {' and '.join(LABEL_SETS)} have labels given by people.")
    if label_set not in LABEL_SETS[name]:
        raise ValueError(f"label_set={label_set!r}: {name} has {', '.join(LABEL_SETS[name])}.")
    folder = Path(root) if root is not None else default_root()
    return read_human_labels(info, find(info.images_of), folder, label_set)


def read_human_labels(info: DatasetInfo, images_info: DatasetInfo, root: Path, label_set: str) -> NoisyLabels:
    """Like `human_labels`, for catalogue entries."""
    layout = require_layout(info, root)
    path = root / layout.folder / layout.files[0].path
    try:
        require_published(path, layout.files[0])
        labels = read_cifar_n(path, dataset=info.name, num_classes=info.num_classes)
    except DataError as error:
        raise DataError(f"{error} {get_again(info, root)}") from error
    coarse = label_set.endswith("_coarse")
    images = read_cifar_images(images_info, require_layout(images_info, root), root, "train")
    on_disk = images.coarse_labels if coarse else images.labels
    assert on_disk is not None, "only CIFAR-100N has superclass labels"
    num_classes = SUPERCLASSES if coarse else info.num_classes
    return noisy_labels(labels, label_set, on_disk=on_disk, where=path, num_classes=num_classes)


def read(info: DatasetInfo, root: Path, split: str, resize: int | None = None) -> RawDataset | ImageFiles:
    """Like `load`, for a catalogue entry: reads the first layout that is complete below the root."""
    layout = require_layout(info, root)
    folder = root / layout.folder
    if layout.format == "food101":
        return read_food101(folder, split, resize)
    if layout.format == "clothing1m":
        return read_clothing1m(folder, split, resize)
    try:
        if layout.format == "idx":
            images, labels = _read_idx_pair(info, layout, root, split)
        else:
            batches = read_cifar_images(info, layout, root, split)
            images, labels = batches.images, batches.labels
    except DataError as error:
        raise DataError(f"{error} {get_again(info, root)}") from error
    expected = info.train_size if split == "train" else info.test_size
    if len(images) != expected or len(labels) != expected:
        raise DataError(
            f"{folder} holds {len(images):,} images and {len(labels):,} labels of the {split} split; "
            f"{info.name} has {expected:,}. {get_again(info, root)}"
        )
    return RawDataset(images=images, labels=labels, class_names=info.class_names)


def get_again(info: DatasetInfo, root: Path) -> str:
    """Return the advice for a missing or damaged file."""
    return f"Get it with `{command('get', info, root)}`."


def command(verb: str, info: DatasetInfo, root: Path) -> str:
    """Return the `tnlpad data` command for a dataset below this root."""
    words = ["tnlpad", "data", verb, info.name]
    if root != default_root():
        words += ["--root", str(root)]
    return shlex.join(words)


def complete_layout(info: DatasetInfo, root: Path) -> Layout | None:
    """Return the first layout whose files all exist; their content is not read."""
    for layout in info.layouts:
        folder = root / layout.folder
        if layout.format == "food101":
            complete = os.path.isfile(folder / FOOD101_CLASS_LIST)
        elif layout.format == "clothing1m":
            complete = any(os.path.isfile(folder / keys) for keys, _, _ in CLOTHING1M_SPLITS.values())
        else:
            complete = all(present(root, layout, file) for file in layout.files)
        if complete:
            return layout
    return None


def partial_layout(info: DatasetInfo, root: Path) -> tuple[Layout, list[str]] | None:
    """Return the first layout of which some files exist, and the names of the missing ones."""
    for layout in info.layouts:
        missing = [file.path for file in layout.files if not present(root, layout, file)]
        if 0 < len(missing) < len(layout.files):
            return layout, missing
    return None


def require_layout(info: DatasetInfo, root: Path) -> Layout:
    """Return the layout to read; raise DataError with the expected folders if none is complete."""
    layout = complete_layout(info, root)
    if layout is not None:
        return layout
    partial = partial_layout(info, root)
    if partial is not None:
        layout, missing = partial
        raise DataError(f"{root / layout.folder} lacks {', '.join(missing)} of {info.name}. {get_again(info, root)}")
    folders = " or ".join(dict.fromkeys(str(root / each.folder) for each in info.layouts))
    way_out = f"{info.by_hand} Then" if info.by_hand else f"Get it with `{command('get', info, root)}`, or"
    raise DataError(f"{info.name} is not in {folders}. {way_out} give the folder that holds it: --root FOLDER.")


def read_cifar_images(info: DatasetInfo, layout: Layout, root: Path, split: str) -> CifarImages:
    """Read the images of a split in either form, with superclasses if there are any."""
    files = [file for file in layout.files if file.path.startswith("test") == (split == "test")]
    paths = [root / layout.folder / file.path for file in files]
    reader = read_cifar_binary
    if layout.format.endswith("python"):
        reader = read_cifar_python
        for path, file in zip(paths, files, strict=True):
            require_published(path, file)
    return reader(paths, num_classes=info.num_classes, coarse=layout.format.startswith("cifar100"))


def read_digits(split: str) -> RawDataset:
    """Return the digits of scikit-learn, their gray values 0 to 16 scaled to 0 to 255."""
    from sklearn.datasets import load_digits  # here, because it takes most of a second

    info = find("digits")
    bunch = load_digits()
    # 255/16 is not whole: adding half of the divisor rounds to the nearest, and no two values become one.
    images = ((bunch.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)[:, None]
    chosen = slice(info.train_size) if split == "train" else slice(info.train_size, None)
    return RawDataset(images=images[chosen], labels=bunch.target[chosen].astype(np.int64), class_names=info.class_names)


def _read_idx_pair(info: DatasetInfo, layout: Layout, root: Path, split: str) -> tuple[NDArray[np.uint8], Labels]:
    prefix = "train" if split == "train" else "t10k"
    arrays = []
    for file in (file for file in layout.files if file.path.startswith(prefix)):  # images, then labels
        path = present(root, layout, file)
        assert path is not None, "the layout is complete"
        assert file.size is not None, "the catalogue has the size of IDX files"
        arrays.append((path, read_idx(path, max_bytes=file.size)))
    (images_path, images), (labels_path, labels) = arrays
    if info.image_shape is None or images.shape[1:] != info.image_shape[1:]:
        raise DataError(f"{images_path} has shape {images.shape}: images of {info.name} have {info.image_shape}.")
    return images[:, None], checked_labels(labels, num_classes=info.num_classes, where=labels_path)


def read_idx(path: Path, *, max_bytes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, the format of MNIST, compressed if its name ends in .gz.

    The file has a big-endian magic number, the dimensions, then the bytes, row by row.
    """
    content = read_bounded(path, max_bytes)
    if len(content) < 4:
        raise DataError(f"{path} has {len(content)} bytes: an IDX file begins with a magic number of 4.")
    zero, kind, dimensions = struct.unpack(">HBB", content[:4])
    if zero != 0 or kind != IDX_UNSIGNED_BYTE or not 1 <= dimensions <= IDX_MAX_DIMENSIONS:
        raise DataError(
            f"{path} begins with 0x{content[:4].hex()}: an IDX file of unsigned bytes begins with 0x000008 and the "
            f"number of dimensions, 1 to {IDX_MAX_DIMENSIONS}."
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
