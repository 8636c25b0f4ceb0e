"""Run folders: records that survive a kill at any moment and lose at most the epoch in progress.

    config.json     written first: the configuration of the run
    epochs.jsonl    one line per finished epoch, appended
    summary.json    written last: its presence means that the run is finished
    lock            held by the one process that works on the run
    error.txt       traceback of an unexpected failure, removed when the run finishes

Other modules write `checkpoint.pt` and `model.safetensors` beside them. A last line without its end counts as not
written. Any other unreadable content raises `RecordError`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tnlpad.atomic_files import append_durably, write_by_rename

Record = dict[str, Any]

LOCK_TIMEOUT_SECONDS = 0.5  # `in_use` holds the lock for an instant


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
        return self.config_file.exists()

    @property
    def finished(self) -> bool:
        return self.summary_file.exists()

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
        for leftover in self.path.glob(".*.tmp"):  # of killed processes: the caller holds the lock
            leftover.unlink()
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
        return read_json(self.config_file)

    def summary(self) -> Record:
        return read_json(self.summary_file)

    def epochs(self) -> list[Record]:
        """Return the records of the finished epochs, in order."""
        records = []
        for number, line in enumerate(self._lines(), start=1):
            try:
                record = json.loads(line, parse_constant=_refuse_constant)
            except ValueError as error:
                raise _damaged(self.epochs_file, f"line {number}: {error}") from error
            if not isinstance(record, dict) or record.get("epoch") != number:
                raise _damaged(self.epochs_file, f"line {number} is not the record of epoch {number}")
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
            raise _damaged(self.epochs_file, f"{known} epochs, but the checkpoint was taken after epoch {count}")
        content = b"".join(line + b"\n" for line in self._lines()[:count])
        if self._written() != content:
            write_by_rename(self.epochs_file, content)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which marks the run as finished."""
        if self.finished:
            raise RecordError(
                f"{self.summary_file} exists already, and a finished run is never overwritten. Choose another --out to "
                "run it again."
            )
        self.error_file.unlink(missing_ok=True)
        write_by_rename(self.summary_file, to_json(summary))

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
        """Whether another process holds the lock."""
        from filelock import FileLock, Timeout

        if not self.lock_file.exists():
            return False
        try:
            with FileLock(self.lock_file).acquire(timeout=0):
                return False
        except Timeout:
            return True

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
            return self.epochs_file.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _damaged(self.epochs_file, str(error)) from error


def find_runs(root: Path) -> Iterator[RunFolder]:
    """Yield every run folder directly within `root`, sorted by name."""
    if root.is_dir():
        for path in sorted(root.iterdir()):
            if (path / "config.json").is_file():
                yield RunFolder(path)


def find_hash(root: Path, digits: str) -> RunFolder | None:
    """Return the run directly within `root` whose name ends with this hash, or None."""
    return next((RunFolder(path.parent) for path in sorted(root.glob(f"*_{digits}/config.json"))), None)


def to_json(value: Mapping[str, Any]) -> bytes:
    """Encode a record; NaN and infinity raise `ValueError`, since JSON has neither."""
    return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Record:
    """Read a JSON object; raise `RecordError` if it is missing or damaged."""
    try:
        value = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise RecordError(
            f"{path} does not exist: the folder holds no run, or one that is not finished. Check the folder, or run "
            "the command that creates it."
        ) from error
    except (ValueError, OSError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise _damaged(path, "not a JSON object")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _damaged(path: Path, reason: str) -> RecordError:
    return RecordError(f"{path} is damaged ({reason}). Restore it, or remove the run's folder to start again.")


# The summary of a finished run ----------------------------------------------------------------------------------------

# Keys that tables and figures rely on, with their types.
SUMMARY_TYPES: dict[str, type] = {
    **dict.fromkeys(("run_id", "selection"), str),
    **dict.fromkeys(("config", "settings", "chosen", "last"), dict),
    "epochs_run": int,
}
CONFIG_TYPES: dict[str, type] = {
    **dict.fromkeys(("dataset", "noise", "protocol", "method", "network"), str),
    "seed": int,
    "options": dict,
    "milestones": list,
}


def finished_summary(folder: RunFolder) -> Record:
    """Return the summary of a finished run; raise `RecordError` if the run is damaged or incomplete."""
    summary = folder.summary()
    if problem := summary_problem(summary):
        raise _damaged(folder.summary_file, problem)
    if summary["run_id"] != folder.path.name or summary["config"] != folder.config():
        raise RecordError(
            f"{folder.summary_file} is the summary of another run. Restore it, or remove the folder to start again."
        )
    missing = None
    if (epochs := folder.epoch_count) != summary["epochs_run"]:
        missing = f"{folder.epochs_file.name} has {epochs} of {summary['epochs_run']} epochs"
    elif not folder.model_file.exists():
        missing = f"there is no {folder.model_file.name}"
    if missing:
        raise RecordError(
            f"{folder.path} is damaged: it has a summary, but {missing}. Restore the files, or remove the folder to "
            "start again."
        )
    return summary


def summary_problem(summary: Any) -> str | None:
    """Return why this is not the summary of a run, or None. Keys that no table or figure uses are not checked."""
    if not isinstance(summary, dict):
        return "its summary is not a JSON object"
    for key, kind in SUMMARY_TYPES.items():
        if not isinstance(summary.get(key), kind):
            return f"{key} is missing or of the wrong type"
    samples = summary.get("samples", {})  # earlier versions wrote none
    if not isinstance(samples, dict) or not isinstance(samples.get("train", 0), int):
        return "samples.train is not a number"
    for key, kind in CONFIG_TYPES.items():
        if not isinstance(summary["config"].get(key), kind):
            return f"config.{key} is missing or of the wrong type"
    return _epoch_problem(summary, "chosen") or _epoch_problem(summary, "last")


def _epoch_problem(summary: Mapping[str, Any], key: str) -> str | None:
    epoch = summary[key].get("epoch")
    if not isinstance(epoch, int):
        return f"{key}.epoch is missing or not a number"
    if not 1 <= epoch <= summary["epochs_run"]:
        return f"{key}.epoch is {epoch}, and the run has {summary['epochs_run']} epochs"
    own_data = "data" in summary["config"]
    for name in ("validation_accuracy", "test_accuracy"):
        value = summary[key].get(name)
        if own_data and name == "test_accuracy" and value is None:  # own data may have no test part
            continue
        if not isinstance(value, (int, float)) or not 0 <= value <= 1:
            return f"{key}.{name} is {value!r}, not a number from 0 to 1"
    return None
