"""Run folders: records that survive a kill at any moment and lose at most the epoch in progress.

    config.json     written first: the configuration of the run
    epochs.jsonl    one line per finished epoch, appended
    summary.json    written last: its presence means that the run is finished
    lock            held by the one process that works on the run
    error.txt       traceback of an unexpected failure, removed when the run finishes

Other modules write `checkpoint.pt` and `model.safetensors` beside them. A last line without its end counts as not
written. Any other unreadable content raises `RecordError`. The summary holds checksums of all artefacts, which whatever
reads one compares: see `checksums.py`.
"""

import errno
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tnlpad.atomic_files import append_durably, remove_leftovers, replacing, write_by_rename
from tnlpad.json_text import load_json, parse_json
from tnlpad.records.checksums import Checksums, checksums_of, is_intact, sealed, sha256_of, unsealed
from tnlpad.regular_files import open_regular
from tnlpad.schema import Optional, Schema, problem

Record = dict[str, Any]

LOCK_TIMEOUT_SECONDS = 0.5  # `in_use` holds the lock for an instant
EPOCH: Schema = {
    "epoch": int,
    "validation_accuracy": float,
    "test_accuracy": float | None,
    "train_loss": Optional(float),
    "seconds": Optional(dict[str, float]),
    **dict.fromkeys(("judged", "selection", "norms"), Optional(dict)),
}
RESTORE = "Restore it from a copy, or remove the run's folder and train again."
WAYS_TO_READ = {  # a file that may be intact
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Check its permissions."),
    errno.EIO: "Check the disk.",
}
_unchecked: set[Path] = set()


class RecordError(Exception):
    """A record is damaged, in use, or of another run. The message names the file and what to do."""


class RunInUse(RecordError):
    """Another process is working on the run."""


class RunFolder:
    """Reads and writes the records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.epochs_file = self.path / "epochs.jsonl"
        self.summary_file = self.path / "summary.json"
        self.checkpoint_file = self.path / "checkpoint.pt"
        self.model_file = self.path / "model.safetensors"
        self.lock_file = self.path / "lock"
        self.error_file = self.path / "error.txt"

    @property
    def begun(self) -> bool:
        return _may_exist(self.config_file)

    @property
    def finished(self) -> bool:
        return _may_exist(self.summary_file)

    @property
    def changed(self) -> float:
        """Time of the last change of its records, in seconds since 1970; 0 if they are gone."""
        times = [0.0]
        for file in (self.config_file, self.epochs_file, self.summary_file):
            with suppress(OSError):
                times.append(file.stat().st_mtime)
        return max(times)

    def begin(self, config: Mapping[str, Any]) -> None:
        """Create the folder and write the configuration; an existing one must be equal."""
        self._make()
        remove_leftovers(self.path)
        if self.begun:
            self.check_config(config)
        else:
            write_by_rename(self.config_file, to_json(config))

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise `RecordError` if the folder holds a run with another configuration."""
        if self.config() != json.loads(json.dumps(config)):
            raise RecordError(
                f"{self.config_file} describes another run. Move the folder away, or choose another --out."
            )

    def config(self) -> Record:
        return read_json(self.artefact(self.config_file.name) or self.config_file)

    def summary(self) -> Record:
        """Return the summary, without the checksums."""
        return self._summary_and_checksums()[0]

    def artefact(self, name: str) -> Path | None:
        """Return the path of a file that training has written; None if there is none.

        Raises:
            RecordError: The run is finished, and the file is missing or not as it was written.
        """
        path, checksums = self.path / name, self._summary_and_checksums()[1] if self.finished else None
        there = _may_exist(path)
        if not there and checksums is not None and name in checksums.files:
            raise RecordError(f"{path} is missing, and the run was trained with it. {RESTORE}")
        if not there:
            return None
        if os.path.exists(path) and not os.path.isfile(path):
            raise damaged(path, "it is not a regular file")
        if checksums is not None:
            self._require_intact(name, checksums)
        return path

    def _require_intact(self, name: str, checksums: Checksums) -> None:
        try:
            _require_intact(self.path / name, checksums.expected(name))
        except RecordError:
            # Another process may have replaced the file since the summary was read.
            now = self._summary_and_checksums()[1]
            if now is None or now == checksums:
                raise
            _require_intact(self.path / name, now.expected(name))

    def require_intact(self) -> None:
        """Raise `RecordError` if a file that a finished run has a checksum of is missing or not as it was written."""
        _, checksums = self._summary_and_checksums()
        for name in () if checksums is None else checksums.files:
            self.artefact(name)

    def warn_if_unchecked(self) -> None:
        """Warn, once for each run, that a finished run of an earlier version has no checksums."""
        if self._summary_and_checksums()[1] is None and self.path not in _unchecked:
            _unchecked.add(self.path)
            warnings.warn(
                f"{self.path} is a run of an earlier version, which has no checksums: damage to its files may go "
                "unnoticed.",
                stacklevel=2,
            )

    def replace_artefacts(self, writers: Mapping[str, Callable[[BinaryIO], None]]) -> None:
        """Write artefacts again, such as when the data were moved; a finished run gets their checksums.

        Args:
            writers: By the name of a file, a function that writes its content.
        """
        summary, checksums = self._summary_and_checksums() if self.finished else ({}, None)
        with ExitStack() as stack:
            files = {name: stack.enter_context(replacing(self.path / name)) for name in writers}
            for name, write in writers.items():
                write(files[name])
                files[name].flush()
            if checksums is not None:
                checksums = checksums.settled(self.path).replacing(
                    {name: sha256_of(Path(file.name)) for name, file in files.items()}
                )
                write_by_rename(self.summary_file, to_json(sealed(summary, checksums)))
        if checksums is not None:
            write_by_rename(self.summary_file, to_json(sealed(summary, checksums.replaced)))

    def _summary_and_checksums(self) -> tuple[Record, Checksums | None]:
        content = read_json(self.summary_file)
        try:
            return unsealed(content)
        except ValueError as error:
            raise damaged(self.summary_file, str(error)) from error

    def epochs(self) -> list[Record]:
        """Return the records of the finished epochs, in order."""
        self.artefact(self.epochs_file.name)
        records = []
        for number, line in enumerate(self._lines(), start=1):
            try:
                record = parse_json(line, finite=True)
            except ValueError as error:
                raise damaged(self.epochs_file, f"line {number}: {error}") from error
            if (found := problem(record, EPOCH)) is None and record["epoch"] != number:
                found = f"it is of epoch {record['epoch']}"
            if found is not None:
                raise damaged(self.epochs_file, f"line {number} is not the record of epoch {number}: {found}")
            records.append(record)
        return records

    @property
    def epoch_count(self) -> int:
        """Number of finished epochs, counted without parsing them."""
        return self._written().count(b"\n")

    def append_epoch(self, record: Mapping[str, Any]) -> None:
        """Append a line; it counts once its line end is on disk."""
        append_durably(self.epochs_file, json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n")

    def keep_epochs(self, count: int) -> None:
        """Remove everything after epoch `count`, including a partial line."""
        known = len(self.epochs())  # raises if a line is damaged
        if known < count:
            raise damaged(self.epochs_file, f"{known} epochs, but the checkpoint was taken after epoch {count}")
        content = b"".join(line + b"\n" for line in self._lines()[:count])
        if self._written() != content:
            write_by_rename(self.epochs_file, content)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary with the checksums of all artefacts, which marks the run as finished."""
        if self.finished:
            raise RecordError(
                f"{self.summary_file} exists already, and a finished run is never overwritten. Choose another --out to "
                "run it again."
            )
        self.error_file.unlink(missing_ok=True)
        write_by_rename(self.summary_file, to_json(sealed(summary, checksums_of(self.path))))

    def keep_error(self, text: str) -> Path:
        """Store the traceback of a failure and return its file."""
        self._make()
        write_by_rename(self.error_file, text.encode())
        return self.error_file

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the run. The system releases it when the process dies."""
        from filelock import FileLock, Timeout

        self._make()
        lock = FileLock(self.lock_file)
        try:
            lock.acquire(timeout=LOCK_TIMEOUT_SECONDS, poll_interval=LOCK_TIMEOUT_SECONDS / 10)
        except Timeout as error:
            raise RunInUse(f"{self.path} is in use by another process. Wait for it, or stop it.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def in_use(self) -> bool:
        """Whether another process is known to hold the lock: on a disk that is read only, that cannot be told."""
        from filelock import FileLock, Timeout

        if not os.path.exists(self.lock_file):
            return False
        try:
            with FileLock(self.lock_file).acquire(timeout=0):
                return False
        except Timeout:
            return True
        except OSError:
            return False

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise RecordError(
                f"{self.path}: a file is in the way of this run's folder. Choose another --out."
            ) from error

    def _lines(self) -> list[bytes]:
        """Return the complete lines, without their ends."""
        return self._written().split(b"\n")[:-1]

    def _written(self) -> bytes:
        try:
            with open_regular(self.epochs_file) as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise unusable(self.epochs_file, error) from error


def _require_intact(path: Path, expected: tuple[str, ...]) -> None:
    if not expected:
        raise RecordError(f"{path} is not of this run, which was finished without such a file. Remove it.")
    try:
        intact = is_intact(path, expected)
    except OSError as error:
        way_out = WAYS_TO_READ.get(error.errno or 0, RESTORE)
        raise RecordError(f"{path} cannot be read ({error.strerror or error}). {way_out}") from error
    if not intact:
        raise RecordError(
            f"{path} is damaged: it was changed after the run was finished. Its SHA-256 must be {expected[0]}. "
            f"{RESTORE}"
        )


def find_runs(root: Path) -> Iterator[RunFolder]:
    """Yield every run folder directly within `root`, sorted by name."""
    if os.path.isdir(root):
        try:
            paths = sorted(root.iterdir())
        except OSError as error:
            raise unusable(root, error) from error
        yield from (RunFolder(path) for path in paths if is_run(path))


def is_run(folder: Path) -> bool:
    """Return whether a folder has the configuration of a run, or hides what it has."""
    try:
        return stat.S_ISREG((folder / "config.json").stat().st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _may_exist(path: Path) -> bool:
    """Return whether there is such a file. If nobody may look, whoever reads it says so."""
    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def find_hash(root: Path, digits: str) -> RunFolder | None:
    """Return the run directly within `root` whose name ends with this hash, or None."""
    return next((RunFolder(path.parent) for path in sorted(root.glob(f"*_{digits}/config.json"))), None)


def to_json(value: Mapping[str, Any]) -> bytes:
    """Encode a record; NaN and infinity raise `ValueError`, since JSON has neither."""
    return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Record:
    """Read a JSON object; raise `RecordError` if it is missing or damaged."""
    try:
        value = load_json(path, finite=True)
    except FileNotFoundError as error:
        raise RecordError(
            f"{path} does not exist: the folder holds no run, or one that is not finished. Check the folder, or run "
            "the command that creates it."
        ) from error
    except (ValueError, OSError) as error:
        raise unusable(path, error) from error
    if not isinstance(value, dict):
        raise damaged(path, "not a JSON object")
    return value


def unusable(path: Path, error: Exception) -> RecordError:
    """Return the error for a record that cannot be read, and may be intact, or is damaged."""
    if isinstance(error, OSError) and error.errno in WAYS_TO_READ:
        return RecordError(f"{path} cannot be read ({error.strerror}). {WAYS_TO_READ[error.errno]}")
    return damaged(path, str(error))


def damaged(path: Path, reason: str) -> RecordError:
    """Return the error for a record that cannot be used."""
    return RecordError(f"{path} is damaged ({reason}). Restore it, or remove the run's folder to start again.")
