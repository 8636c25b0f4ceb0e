"""Small files in the published formats, and where the real data are if they are here."""

import gzip
import hashlib
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tnlpad.data.catalogue import CATALOGUE, DataFile, DatasetInfo, Layout, Published, RemoteFile

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared" / "data"
TRAIN, TEST = 12, 5


def real_root(*folders: str) -> Path:
    """A root that holds these folders of real data; the test is skipped where there is none."""
    candidates = [Path(os.environ["TNLPAD_DATA"])] if "TNLPAD_DATA" in os.environ else []
    for root in (*candidates, REPOSITORY.parent / "data"):
        if all((root / folder).is_dir() for folder in folders):
            return root
    pytest.skip(f"needs {', '.join(folders)} below $TNLPAD_DATA; get it with `tnlpad data get`")


def shared_file(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return path


def checksums(content: bytes) -> tuple[str, ...]:
    return (f"sha256:{hashlib.sha256(content).hexdigest()}", f"md5:{hashlib.md5(content).hexdigest()}")


def idx_bytes(array) -> bytes:
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_contents(seed: int = 0) -> dict[str, bytes]:
    """The four files of a tiny MNIST, by their published names."""
    generator = np.random.default_rng(seed)
    contents = {}
    for prefix, count in (("train", TRAIN), ("t10k", TEST)):
        contents[f"{prefix}-images-idx3-ubyte"] = idx_bytes(generator.integers(0, 256, (count, 28, 28)))
        contents[f"{prefix}-labels-idx1-ubyte"] = idx_bytes(generator.integers(0, 10, count))
    return contents


def tiny_mnist(base_url: str = "http://127.0.0.1:1/") -> tuple[DatasetInfo, dict[str, bytes]]:
    """MNIST's record with sizes and checksums of tiny files, and those files compressed, as a server has them."""
    contents = idx_contents()
    served = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in contents.items()}
    files = tuple(
        DataFile(path=name, size=len(content), checksums=checksums(content)) for name, content in contents.items()
    )
    remote = tuple(
        RemoteFile(url=f"{base_url}{name}", size=len(content), checksums=checksums(content))
        for name, content in served.items()
    )
    info = replace(
        CATALOGUE["mnist"],
        train_size=TRAIN,
        test_size=TEST,
        layouts=(Layout(folder="MNIST/raw", format="idx", files=files),),
        sources=(Published(files=remote, unpack="gunzip"),),
    )
    return info, served


def write_idx(root: Path) -> Path:
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in idx_contents().items():
        (folder / name).write_bytes(content)
    return folder


def cifar_arrays(count: int, num_classes: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    return (
        generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8),
        generator.integers(0, num_classes, count),
        generator.integers(0, 20, count),
    )


class Recorder:
    """A reporter that keeps what it receives."""

    def __init__(self):
        self.said, self.steps = [], []

    def say(self, message):
        self.said.append(message)

    def progress(self, task, done, total):
        self.steps.append((task, done, total))
