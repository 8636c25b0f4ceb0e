"""The catalogue of published datasets: files, sizes, checksums, classes, licence and sources, from catalogue.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tnlpad.suggestions import nearest

Format = Literal[
    "idx",
    "cifar10-binary",
    "cifar10-python",
    "cifar100-binary",
    "cifar100-python",
    "cifar-n",
    "food101",
    "clothing1m",
]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file in a layout's folder: size in bytes and checksums such as "sha256:1f3a…" of its uncompressed content."""

    path: str
    size: int | None = None
    checksums: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One of the forms in which a dataset is stored below the root. Image trees have no `files`."""

    folder: str
    format: Format
    files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as served at its published address, before unpacking."""

    url: str
    size: int
    checksums: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Last part of the address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Published:
    """Files at published addresses; `unpack` turns them into the files of the first layout."""

    files: tuple[RemoteFile, ...]
    unpack: Literal["gunzip", "tar", "nothing"]

    def __str__(self) -> str:
        return self.files[0].url if len(self.files) == 1 else self.files[0].url.rsplit("/", 1)[0] + "/"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that contains the files of the first layout, or pictures that they are made of (`convert`)."""

    manager: Literal["npm", "apt"]
    package: str
    folder: str
    convert: Literal["cifar10-png"] | None = None
    version: str | None = None

    def __str__(self) -> str:
        return f"{self.manager} package {self.package}{'@' + self.version if self.version else ''}"


Source = Published | Package


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """Mean and standard deviation per channel, of pixel values in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """The catalogue entry of one dataset.

    `layouts` are tried in order when reading, and `get` writes the first. `images_of` names the dataset whose images
    the labels belong to. `by_hand` explains how to obtain data that cannot be downloaded.
    """

    name: str
    title: str
    class_names: tuple[str, ...]
    train_size: int
    test_size: int
    normalisation: Normalisation
    licence: str
    image_shape: tuple[int, int, int] | None = None
    layouts: tuple[Layout, ...] = ()
    sources: tuple[Source, ...] = ()
    images_of: str | None = None
    by_hand: str | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def bundled(self) -> bool:
        """Whether the data come with an installed package and need no files."""
        return not self.layouts


def find(name: str) -> DatasetInfo:
    """Return the entry of this name; raise ValueError with the nearest name if there is none."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    meant = nearest(name.lower().replace("-", "_"), CATALOGUE)
    hint = f" Did you mean {meant}?" if meant else ""
    raise ValueError(f"{name!r} is not a dataset of the catalogue.{hint} There are: {', '.join(CATALOGUE)}.")


Entry = dict[str, Any]  # a table of catalogue.toml


def _info(name: str, entry: Entry) -> DatasetInfo:
    images = _ENTRIES[entry["images_of"]] if "images_of" in entry else entry
    shape = images.get("image_shape")
    return DatasetInfo(
        name=name,
        title=entry["title"],
        class_names=tuple(images["class_names"]),
        train_size=images["train_size"],
        test_size=images["test_size"],
        normalisation=Normalisation(mean=tuple(images["mean"]), std=tuple(images["std"])),
        licence=entry["licence"],
        image_shape=tuple(shape) if shape else None,
        layouts=tuple(_layout(layout) for layout in entry.get("layouts", ())),
        sources=(*_published(entry), *(Package(**package) for package in entry.get("packages", ()))),
        images_of=entry.get("images_of"),
        by_hand=entry.get("by_hand"),
    )


def _layout(entry: Entry) -> Layout:
    described = tuple(
        DataFile(path=file["path"], size=file.get("size"), checksums=_checksums(file))
        for file in entry.get("files", ())
    )
    return Layout(folder=entry["folder"], format=entry["format"], files=described)


def _published(entry: Entry) -> list[Published]:
    """Return one source per address; all addresses of an entry serve the same files."""
    return [
        Published(
            files=tuple(
                RemoteFile(url=address + file["name"], size=file["size"], checksums=_checksums(file))
                for file in published["files"]
            ),
            unpack=published["unpack"],
        )
        for published in entry.get("published", ())
        for address in published["addresses"]
    ]


def _checksums(file: Entry) -> tuple[str, ...]:
    return tuple(f"{kind}:{file[kind]}" for kind in ("sha256", "sha1", "md5") if kind in file)


_ENTRIES: dict[str, Entry] = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))

CATALOGUE: dict[str, DatasetInfo] = {name: _info(name, entry) for name, entry in _ENTRIES.items()}
IMAGENET_NORMALISATION = CATALOGUE["food101"].normalisation

# CIFAR-100's superclasses in the order of their published labels, and the superclass of each of the hundred classes.
CIFAR100_SUPERCLASS_NAMES: tuple[str, ...] = tuple(_ENTRIES["cifar100"]["superclasses"])
CIFAR100_SUPERCLASS: tuple[int, ...] = tuple(
    next(number for number, members in enumerate(_ENTRIES["cifar100"]["superclasses"].values()) if name in members)
    for name in CATALOGUE["cifar100"].class_names
)
