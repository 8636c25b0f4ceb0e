"""Check image files, and remember the facts about many of them, so that they are read once and not for every command.

A record is one array per dataset in the user's cache, with a row per file: a hash of its name, its size and times, and
the facts. A file is checked again if its size or times differ. The time of its last change is set by the system, so a
file that was replaced differs even if its date was kept. Small datasets are read again instead.

Of processes that open the same data at the same time, such as the ranks of one training, one checks the files while the
others wait for its record. A record that cannot be read or written costs time and nothing else.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from tnlpad.array_files import read_array
from tnlpad.atomic_files import replacing
from tnlpad.data.files import user_cache
from tnlpad.data.own.digests import DIGEST_BYTES, NOWHERE, DigestIndex, Digests
from tnlpad.data.own.image_facts import FACTS, ImageFacts
from tnlpad.data.own.selection import Encoded, Selection
from tnlpad.data.paths import PathList
from tnlpad.data.pixels import probe
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError
from tnlpad.types import Index

TASK = "Checking images"
MIN_REMEMBERED = 5000  # files; fewer are read again
VERSION = 2  # raise it when `probe` finds other facts
ROW = np.dtype([("name", np.uint8, DIGEST_BYTES), ("state", np.int64, 3), ("facts", FACTS)])
ABSENT = -1  # in the place of a size
SETTLED_NANOSECONDS = 2 * 10**9  # a younger file may change again within one tick of its clock
UNUSED_SECONDS = 60 * 24 * 3600.0  # after which a record is removed
FILES_AT_ONCE, THREADS = 1024, 16


def records_folder() -> Path:
    """Return the folder of records: in $TNLPAD_CACHE, else in the user's cache. It need not exist."""
    chosen = os.environ.get("TNLPAD_CACHE")
    return (Path(chosen).expanduser() if chosen else user_cache() / "tnlpad") / "checked"


def check_files(
    files: Sequence[Encoded], source: Path, *, fresh: bool = False, reporter: Reporter = SILENT
) -> tuple[ImageFacts, dict[int, str]]:
    """Return the facts about image files, and by place why some cannot be used.

    Args:
        files: Paths or contents.
        source: Path of the data.
        fresh: Whether to read every file, also those that are known.
        reporter: Receives progress.
    """
    facts = ImageFacts.empty(len(files))
    if not isinstance(files, PathList) or len(files) < MIN_REMEMBERED:
        return facts, facts.fill(range(len(files)), in_threads(probe, files, TASK, reporter))
    path = _record_path(source)
    with _alone_with(path, reporter):
        record = _Record(files)
        unknown = np.arange(len(files)) if fresh else record.copy_known(path, facts)
        began = time.time_ns()
        try:
            return facts, facts.fill(unknown.tolist(), in_threads(probe, Selection(files, unknown), TASK, reporter))
        finally:  # also if interrupted: the next pass goes on from here
            if len(unknown):
                record.write(path, facts, began)


class _Record:
    """Names and states of files, for comparison with those of a stored record."""

    def __init__(self, files: PathList) -> None:
        self.names = Digests.of([sha256(files.name(place)).digest() for place in range(len(files))])
        blocks = (slice(start, start + FILES_AT_ONCE) for start in range(0, len(files), FILES_AT_ONCE))
        with ThreadPoolExecutor(THREADS) as pool:  # the disk may be far away
            self.states = np.concatenate(list(pool.map(lambda block: _states(files[block]), blocks)))

    def copy_known(self, path: Path, facts: ImageFacts) -> Index:
        """Copy the stored facts about files that have not changed, and return the places of the others."""
        stored = _read(path)
        if stored is None:
            return np.arange(len(self.names))
        places = DigestIndex(Digests(stored["name"])).places(self.names)
        same = (places != NOWHERE) & (stored["state"][places] == self.states).all(axis=1)
        facts.table[same] = stored["facts"][places[same]]
        return np.flatnonzero(~same)

    def write(self, path: Path, facts: ImageFacts, began: int) -> None:
        """Store the facts about files that could be used and did not change shortly before the check began."""
        kept = np.flatnonzero(
            (facts.table["width"] > 0) & (self.states[:, 1:].max(axis=1, initial=0) < began - SETTLED_NANOSECONDS)
        )
        with suppress(OSError), replacing(path) as file:
            header = {"descr": np.lib.format.dtype_to_descr(ROW), "fortran_order": False, "shape": kept.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(kept), FILES_AT_ONCE):
                some = kept[start : start + FILES_AT_ONCE]
                rows = np.empty(len(some), ROW)
                rows["name"], rows["state"], rows["facts"] = self.names.rows[some], self.states[some], facts.table[some]
                file.write(rows.tobytes())


def _states(paths: Sequence[str]) -> NDArray[np.int64]:
    """Return size, modification time and change time of files."""
    states = np.full((len(paths), 3), ABSENT)
    for state, path in zip(states, paths, strict=True):
        with suppress(OSError, ValueError):
            found = os.stat(path)
            state[:] = found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return states


def _record_path(source: Path) -> Path:
    name = sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:16]
    return records_folder() / f"{name}-v{VERSION}.npy"


def _read(path: Path) -> NDArray[np.void] | None:
    try:
        stored: NDArray[np.void] = read_array(path, kinds="V", mapped=True)
        os.utime(path)
    except (OSError, DataError):
        return None
    return stored if stored.dtype == ROW and stored.ndim == 1 and len(stored) else None


@contextmanager
def _alone_with(path: Path, reporter: Reporter) -> Iterator[None]:
    """Let one process at a time use a record, and remove those that were not used for long."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_unused(path.parent)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            reporter.say("Another process is checking these images: waiting for it.")
            lock.acquire()
    except OSError:  # the folder cannot be written to
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _remove_unused(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                path.unlink()
