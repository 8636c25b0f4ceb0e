"""A run's folder, written so that a kill at any instant loses at most the epoch in progress.

    config.json     first, by rename: what the run is
    epochs.jsonl    one line per finished epoch, appended
    summary.json    last, by rename: its presence means that the run is finished
    lock            held by the one process that works on the run, released by the system when it dies
    error.txt       where a failure came from that nobody expected, until the run is finished after all

`checkpoint.pt` and `model.safetensors` lie beside them and are written by those who know torch. A line that was cut off
in the middle counts as not written; anything else that cannot be read is reported and not used.

Whether a finished run is whole: one answer for whoever trains, plans a grid or reports.

What the epochs hold is left to those who draw curves: they are counted, since there may be thousands of runs.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tnlpad.atomic_files import write_by_rename

Record = dict[str, Any]

SECONDS_TO_BEAR_A_LOOK = 0.5  # `in_use` holds the lock for an instant


class RecordError(Exception):
    """A record that is damaged, in use, or not what it should be; the message names the file and the way out."""


class RunInUse(RecordError):
    """Another process is working on the run."""


def to_json(value: Mapping[str, Any]) -> bytes:
    """NaN and infinity are refused: they are not JSON, and a record should not hold them."""
    return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


class RunFolder:
    """Reads and writes one run's records."""

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

    def begin(self, config: Mapping[str, Any]) -> None:
        """Make the folder and say what the run is; an existing configuration must be the same one."""
        self._make()
        self._sweep()
        if self.begun:
            self.check_config(config)
        else:
            write_by_rename(self.config_file, to_json(config))

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Refuse a folder that holds another run than the one asked for."""
        if self.config() != json.loads(json.dumps(config)):
            raise RecordError(
                f"{self.config_file} describes another run than the one asked for. Move the folder away, or choose "
                "another --out."
            )

    def config(self) -> Record:
        return read_json(self.config_file)

    def summary(self) -> Record:
        return read_json(self.summary_file)

    def epochs(self) -> list[Record]:
        """The finished epochs in order; a last line without its end is one that was being written."""
        records = []
        for number, line in enumerate(self._lines(), start=1):
            try:
                record = json.loads(line, parse_constant=_no_number)
            except ValueError as error:
                raise _damaged(self.epochs_file, f"line {number}: {error}") from error
            if not isinstance(record, dict) or record.get("epoch") != number:
                raise _damaged(self.epochs_file, f"line {number} is not the record of epoch {number}")
            records.append(record)
        return records

    @property
    def epoch_count(self) -> int:
        """How many finished epochs there are; what they hold is not looked at, since there may be thousands of runs."""
        return self._written().count(b"\n")

    def append_epoch(self, record: Mapping[str, Any]) -> None:
        """Add a line; it counts from the moment its line end is on disk."""
        line = json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"
        before = self.epochs_file.stat().st_size if self.epochs_file.exists() else None
        try:
            with open(self.epochs_file, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # On a full disk the line may be there in part, or in whole but not for good.
            with suppress(OSError):
                self.epochs_file.unlink() if before is None else os.truncate(self.epochs_file, before)
            raise

    def keep_epochs(self, count: int) -> None:
        """Forget what was written after epoch `count`, such as a line cut off in the middle."""
        known = len(self.epochs())  # reports damage
        if known < count:
            raise _damaged(self.epochs_file, f"{known} epochs, but the checkpoint was taken after epoch {count}")
        content = b"".join(line + b"\n" for line in self._lines()[:count])
        if self._written() != content:
            write_by_rename(self.epochs_file, content)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Declare the run finished."""
        if self.finished:
            raise RecordError(
                f"{self.summary_file} exists already, and a finished run is never overwritten. Choose another --out to "
                "run it again."
            )
        self.error_file.unlink(missing_ok=True)
        write_by_rename(self.summary_file, to_json(summary))

    def keep_error(self, text: str) -> Path:
        """Keep where a failure came from, for whoever has to find its cause."""
        self._make()
        write_by_rename(self.error_file, text.encode())
        return self.error_file

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process works on a run; the lock dies with its process, however it dies."""
        from filelock import FileLock, Timeout

        self._make()
        lock = FileLock(self.lock_file)
        try:
            lock.acquire(timeout=SECONDS_TO_BEAR_A_LOOK, poll_interval=SECONDS_TO_BEAR_A_LOOK / 10)
        except Timeout as error:
            raise RunInUse(f"{self.path} is being worked on by another process. Wait for it, or stop it.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def in_use(self) -> bool:
        """Whether a process is working on the run at this moment."""
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

    def _sweep(self) -> None:
        """Remove what killed processes were writing; called by the holder of the lock, so nobody writes now."""
        for leftover in self.path.glob(".*.tmp"):
            leftover.unlink()

    def _lines(self) -> list[bytes]:
        """The complete lines, without their ends."""
        return self._written().split(b"\n")[:-1]

    def _written(self) -> bytes:
        try:
            return self.epochs_file.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _damaged(self.epochs_file, str(error)) from error


def find_runs(root: Path) -> Iterator[RunFolder]:
    """Every run folder directly within `root`, in the order of their names."""
    if root.is_dir():
        for path in sorted(root.iterdir()):
            if (path / "config.json").is_file():
                yield RunFolder(path)


def read_json(path: Path) -> Record:
    """A JSON object; what is missing or damaged is reported with the way out."""
    try:
        value = json.loads(path.read_bytes(), parse_constant=_no_number)
    except FileNotFoundError as error:
        raise RecordError(
            f"{path} does not exist: this is no run, or one that has not come so far. Check the folder, or run the "
            "command that makes it."
        ) from error
    except (ValueError, OSError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise _damaged(path, "not a JSON object")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _damaged(path: Path, reason: str) -> RecordError:
    return RecordError(
        f"{path} is damaged ({reason}) and is not used. Restore it, or remove the run's folder to start anew."
    )


def finished_summary(folder: RunFolder) -> Record:
    """The summary of a finished run; a `RecordError` says which part of the run is damaged, lost or another run's."""
    summary = folder.summary()
    if problem := problem_of(summary):
        raise RecordError(
            f"{folder.summary_file} is damaged ({problem}) and is not used. Restore it, or remove the run's folder to "
            "start anew."
        )
    if summary["run_id"] != folder.path.name or summary["config"] != folder.config():
        raise RecordError(
            f"{folder.summary_file} is the summary of another run than the folder's. Restore it, or remove the folder "
            "to start anew."
        )
    if lost := _lost(folder, summary):
        raise RecordError(
            f"{folder.path} is damaged: its summary says that it is finished, but {lost}. Restore what is missing, or "
            "remove the folder to start anew."
        )
    return summary


def _lost(folder: RunFolder, summary: Mapping[str, Any]) -> str | None:
    if (epochs := folder.epoch_count) != summary["epochs_run"]:
        return f"{folder.epochs_file.name} has {epochs} of {summary['epochs_run']} epochs"
    return None if folder.model_file.exists() else f"there is no {folder.model_file.name}"


# The summary ----------------------------------------------------------------------------------------------------------

KEYS: dict[str, type | tuple[type, ...]] = {
    "run_id": str,
    "config": dict,
    "settings": dict,
    "chosen": dict,
    "last": dict,
    "selection": str,
    "epochs_run": int,
}
FIELDS: dict[str, type] = {
    **dict.fromkeys(("dataset", "noise", "protocol", "method", "network"), str),
    "seed": int,
    "options": dict,
    "milestones": list,
}


def problem_of(summary: Any) -> str | None:
    """Why this is not the summary of a run; what tables and figures rely on is looked at, and nothing else."""
    if not isinstance(summary, dict):
        return "its summary is no JSON object"
    for key, kind in KEYS.items():
        if not isinstance(summary.get(key), kind):
            return f"{key} is missing or of the wrong type"
    samples = summary.get("samples", {})  # earlier versions wrote none
    if not isinstance(samples, dict) or not isinstance(samples.get("train", 0), int):
        return "samples.train is no number"
    return (
        _problem_of_config(summary["config"]) or _problem_of_end(summary, "chosen") or _problem_of_end(summary, "last")
    )


def _problem_of_config(config: Mapping[str, Any]) -> str | None:
    for name, kind in FIELDS.items():
        if not isinstance(config.get(name), kind):
            return f"config.{name} is missing or of the wrong type"
    return None


def _problem_of_end(summary: Mapping[str, Any], end: str) -> str | None:
    epoch = summary[end].get("epoch")
    if not isinstance(epoch, int):
        return f"{end}.epoch is missing or no number"
    if not 1 <= epoch <= summary["epochs_run"]:
        return f"{end}.epoch is {epoch}, and there are {summary['epochs_run']}"
    own_data = "data" in summary["config"]
    for name in ("validation_accuracy", "test_accuracy"):
        value = summary[end].get(name)
        if own_data and name == "test_accuracy" and value is None:  # they need not have a test part
            continue
        if not isinstance(value, (int, float)) or not 0 <= value <= 1:
            return f"{end}.{name} is {value!r}, which is no share"
    return None
