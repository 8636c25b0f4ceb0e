"""Take known files out of archives that are not trusted: no other member, no other place, no other size."""

import gzip
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tnlpad.data.files import BLOCK_BYTES, readable
from tnlpad.errors import DataError

MOST_MEMBERS = 200_000
MOST_BYTES = 20 << 30

Choose = Callable[[tarfile.TarInfo], Path | None]


def extract_files(archive: Path, wanted: Mapping[str, Path], *, most_bytes: int) -> None:
    """Write each wanted member, no longer than `most_bytes`, to its path; all of them must be there."""
    found: set[Path] = set()

    def choose(member: tarfile.TarInfo) -> Path | None:
        target = wanted.get(member.name.removeprefix("./"))
        if target is not None:
            _require_plain_file(archive, member, most_bytes)
            found.add(target)
        return target

    _extract(archive, choose)
    missing = [name for name, target in wanted.items() if target not in found]
    if missing:
        raise DataError(f"{archive} does not contain {', '.join(missing)}.")


def extract_tree(
    archive: Path, pattern: re.Pattern[str], folder: Path, *, most_bytes: int, progress: Callable[[int], None]
) -> int:
    """Write the members whose whole name fits the pattern below the folder; the pattern decides what is a safe name."""
    count = 0

    def choose(member: tarfile.TarInfo) -> Path | None:
        nonlocal count
        name = member.name.removeprefix("./")
        if not pattern.fullmatch(name):
            return None
        _require_plain_file(archive, member, most_bytes)
        count += 1
        progress(count)
        return folder / name

    _extract(archive, choose)
    return count


def gunzip(source: Path, target: Path, *, most_bytes: int) -> None:
    """Uncompress a file; one that would grow beyond `most_bytes` is refused at that point."""
    with readable(source), gzip.open(source, "rb") as stream, target.open("wb") as file:
        written = 0
        while block := stream.read(BLOCK_BYTES):
            written += len(block)
            if written > most_bytes:
                raise DataError(f"{source} unpacks to more than the {most_bytes:,} bytes published.")
            file.write(block)


def _extract(archive: Path, choose: Choose) -> None:
    with _opened(archive) as tar:
        members = total = 0
        for member in tar:
            members, total = members + 1, total + member.size
            if members > MOST_MEMBERS or total > MOST_BYTES:
                raise DataError(f"{archive} unpacks to far more than was published: it is not the published archive.")
            target = choose(member)
            if target is not None:
                _write(tar.extractfile(member), target)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """The archive as a stream, read once from beginning to end; what damage raises becomes our error."""
    try:
        with readable(archive), _stream(archive) as tar:
            yield tar
    except tarfile.TarError as error:
        raise DataError(f"{archive} is a damaged archive ({error}).") from error


def _stream(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r|gz")
    except TypeError as error:  # which the standard library raises where the header of gzip ends early
        raise tarfile.ReadError("it ends within its header") from error


def _require_plain_file(archive: Path, member: tarfile.TarInfo, most_bytes: int) -> None:
    if not member.isreg():
        raise DataError(f"{archive}: {member.name!r:.120} is a link or folder where a file was published.")
    if member.size > most_bytes:
        raise DataError(
            f"{archive}: {member.name!r:.120} has {member.size:,} bytes; the published file has at most {most_bytes:,}."
        )


def _write(content: IO[bytes] | None, target: Path) -> None:
    assert content is not None, "only plain files are chosen"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(content, file, BLOCK_BYTES)
