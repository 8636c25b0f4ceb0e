"""The catalogue: one record per dataset, with its files, sizes, checksums, classes, licence and where to get it.

Sizes and checksums are those of the files as published, with the uncompressed content where a file is published
compressed. Those of archives and of Python batches come from the publishers and from torchvision's and TensorFlow
Datasets' lists; those of CIFAR-10's binary batches (SHA-1) from MXNet's. Where content matched a published checksum of
an older kind, its SHA-256 stands beside it, and both are verified.
"""

from tnlpad.data.catalogue.cifar import CIFAR10, CIFAR100
from tnlpad.data.catalogue.cifar_n import CIFAR10N, CIFAR100N
from tnlpad.data.catalogue.digits import DIGITS
from tnlpad.data.catalogue.info import (
    DataFile,
    DatasetInfo,
    Layout,
    Normalisation,
    Package,
    Published,
    RemoteFile,
    Source,
)
from tnlpad.data.catalogue.mnist import FASHION_MNIST, MNIST
from tnlpad.data.catalogue.photographs import CLOTHING1M, FOOD101
from tnlpad.names import nearest

CATALOGUE: dict[str, DatasetInfo] = {
    info.name: info
    for info in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100, CIFAR10N, CIFAR100N, FOOD101, CLOTHING1M, DIGITS)
}


def find(name: str) -> DatasetInfo:
    """The record of this name; a wrong name is answered with the nearest one."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    meant = nearest(name.lower().replace("-", "_"), CATALOGUE)
    hint = f" Did you mean {meant}?" if meant else ""
    raise ValueError(f"{name!r} is not a dataset of the catalogue.{hint} There are: {', '.join(CATALOGUE)}.")


__all__ = [
    "CATALOGUE",
    "DataFile",
    "DatasetInfo",
    "Layout",
    "Normalisation",
    "Package",
    "Published",
    "RemoteFile",
    "Source",
    "find",
]
