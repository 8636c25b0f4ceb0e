"""Extract known files from untrusted archives: only expected members, to their own place, up to their known size."""

import gzip
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tnlpad.data.files import BLOCK_BYTES, readable
from tnlpad.errors import DataError

MAX_MEMBERS = 200_000
MAX_TOTAL_BYTES = 20 << 30

Choose = Callable[[tarfile.TarInfo], Path | None]


def extract_files(archive: Path, wanted: Mapping[str, Path], *, max_bytes: int) -> None:
    """Write each wanted member, of at most `max_bytes`, to its path; raise DataError if one is missing."""
    found: set[Path] = set()

    def choose(member: tarfile.TarInfo) -> Path | None:
        target = wanted.get(member.name.removeprefix("./"))
        if target is not None:
            _require_regular_file(archive, member, max_bytes)
            found.add(target)
        return target

    _extract(archive, choose)
    missing = [name for name, target in wanted.items() if target not in found]
    if missing:
        raise DataError(f"{archive} does not contain {', '.join(missing)}.")


def extract_tree(
    archive: Path, pattern: re.Pattern[str], folder: Path, *, max_bytes: int, progress: Callable[[int], None]
) -> int:
    """Write the members whose whole name matches the pattern below the folder, and return their number.

    The pattern must match safe names only.
    """
    count = 0

    def choose(member: tarfile.TarInfo) -> Path | None:
        nonlocal count
        name = member.name.removeprefix("./")
        if not pattern.fullmatch(name):
            return None
        _require_regular_file(archive, member, max_bytes)
        count += 1
        progress(count)
        return folder / name

    _extract(archive, choose)
    return count


def gunzip(source: Path, target: Path, *, max_bytes: int) -> None:
    """Uncompress a file; raise DataError as soon as it exceeds `max_bytes`."""
    with readable(source), gzip.open(source, "rb") as stream, target.open("wb") as file:
        written = 0
        while block := stream.read(BLOCK_BYTES):
            written += len(block)
            if written > max_bytes:
                raise DataError(f"{source} unpacks to more than the {max_bytes:,} bytes published.")
            file.write(block)


def _extract(archive: Path, choose: Choose) -> None:
    with _opened(archive) as tar:
        members = total = 0
        for member in tar:
            members, total = members + 1, total + member.size
            if members > MAX_MEMBERS or total > MAX_TOTAL_BYTES:
                raise DataError(f"{archive} unpacks to far more than was published: it is not the published archive.")
            target = choose(member)
            if target is not None:
                content = tar.extractfile(member)
                assert content is not None, "only regular files are chosen"
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file, BLOCK_BYTES)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open the archive as a stream, to be read once from beginning to end; damage becomes a DataError."""
    try:
        with readable(archive), _stream(archive) as tar:
            yield tar
    except tarfile.TarError as error:
        raise DataError(f"{archive} is a damaged archive ({error}).") from error


def _stream(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r|gz")
    except TypeError as error:  # raised by the standard library if the gzip header ends early
        raise tarfile.ReadError("it ends within its header") from error


def _require_regular_file(archive: Path, member: tarfile.TarInfo, max_bytes: int) -> None:
    if not member.isreg():
        raise DataError(f"{archive}: {member.name!r:.120} is a link or folder where a file was published.")
    if member.size > max_bytes:
        raise DataError(
            f"{archive}: {member.name!r:.120} has {member.size:,} bytes; the published file has at most {max_bytes:,}."
        )
