"""CIFAR-10N and CIFAR-100N: labels that people gave to CIFAR's training images."""

from dataclasses import replace

from tnlpad.data.catalogue.cifar import CIFAR10, CIFAR100
from tnlpad.data.catalogue.info import DataFile, DatasetInfo, Layout, Published


def _relabelled(images: DatasetInfo, title: str, published: DataFile) -> DatasetInfo:
    """The record of people's labels for these images, whose number, shape and classes they share."""
    assert published.size is not None
    name = f"{images.name}n"
    return replace(
        images,
        name=name,
        title=title,
        licence='CC BY-NC 4.0. J. Wei et al., "Learning with Noisy Labels Revisited", ICLR 2022.',
        # The published file in a folder of its own or at the root, or the same labels as an .npz.
        layouts=tuple(
            Layout(folder=folder, format="cifar-n", files=(file,))
            for folder in ("cifar-n", ".")
            for file in (published, DataFile(path=f"{name}.npz"))
        ),
        sources=(
            Published.one_file(
                url=f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/{published.path}",
                size=published.size,
                checksums=published.checksums,
                unpack="nothing",
            ),
        ),
        images_of=images.name,
    )


CIFAR10N = _relabelled(
    CIFAR10,
    "CIFAR-10N: labels of CIFAR-10 by people",
    DataFile(
        path="CIFAR-10_human.pt",
        size=2_401_007,
        checksums=(
            "sha256:873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
            "md5:96644db5574813cae939af5f7f2a0aec",
        ),
    ),
)

CIFAR100N = _relabelled(
    CIFAR100,
    "CIFAR-100N: labels of CIFAR-100 by people",
    DataFile(
        path="CIFAR-100_human.pt",
        size=1_000_959,
        checksums=(
            "sha256:bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
            "md5:a67b45c1d7992051865b5c755bd68bb1",
        ),
    ),
)
