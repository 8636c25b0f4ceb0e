"""Archived records of finished runs, and a reader of finished runs from folders and archives alike.

An archived record `RUN_ID.json` holds the summary and the rounded curves of a run in a few kilobytes, for version
control. Tables and figures are the same whether they are made from run folders or from archived records.

    {
    "kind": "run",
    "summary": {…},
    "curves": {…}
    }

Extras are other results for figures: one file `NAME.json` with `"kind": NAME` in the folder of runs.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tnlpad.atomic_files import write_by_rename
from tnlpad.json_text import load_json
from tnlpad.records.curves import Curves, curves_from_json, curves_of, share
from tnlpad.records.samples import DATA_FILE
from tnlpad.records.store import Record, RecordError, RunFolder
from tnlpad.records.summaries import finished_summary, summary_problem

KIND = "run"
SUFFIX = ".json"
# Where and how fast a run was executed does not change its result.
CIRCUMSTANCES = ("seconds", "machine", "processors", "versions")


@dataclass(frozen=True, kw_only=True)
class FinishedRecord:
    """A finished run.

    Args:
        run_id: Name of the run.
        config: The whole configuration, as plain data.
        settings: Settings that differ from the recipe of the dataset, noise, protocol, method and network.
        summary: The content of `summary.json`; accuracies are shares of 1.
        source: The run folder or archived file.
        read_curves: Reads the curves, for `curves`.
    """

    run_id: str
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    source: Path
    read_curves: Callable[[], Curves] = field(repr=False, compare=False)

    @cached_property
    def curves(self) -> Curves:
        """The curves, read on first use; raises `RecordError` if they are damaged."""
        return self.read_curves()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A record that is skipped, and why.

    Args:
        kind: `damaged`: cannot be read. `unfinished`: has no summary yet. `repeated`: found before with the same
            result. `conflicting`: found before with another result; the first one is used. `own`: a run on own data,
            which has no published number to compare with.
    """

    kind: Literal["damaged", "unfinished", "repeated", "conflicting", "own"]
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def archive(folder: RunFolder) -> Record:
    """Return the content of the archived file of a finished run."""
    record = _from_folder(folder)
    if record.config.get("noise_file_sha256") is not None:
        raise RecordError(
            f"{folder.path} was trained on labels from the file {record.config['noise']}, which nobody else has. Such "
            "runs are not archived: leave it out."
        )
    return {"kind": KIND, "summary": dict(record.summary), "curves": record.curves.to_json()}


def write_archived(content: Record, out: Path) -> bool:
    """Write an archived record; return False if it exists already. A different result is never overwritten."""
    path = out / f"{content['summary']['run_id']}{SUFFIX}"
    if not path.exists():
        write_by_rename(path, _as_text(content).encode())
        return True
    known = _from_file(path)
    if known is None:
        raise RecordError(f"{path} exists and is not the record of a run. Name another folder, or move it away.")
    different = _differences(known.summary, content["summary"])
    different += [] if known.curves.to_json() == content["curves"] else ["its curves differ"]
    if different:
        raise RecordError(
            f"{path} holds another result of this run: {'; '.join(different)}. Remove the one that is wrong."
        )
    return False


def finished_records(
    paths: Iterable[Path], on_problem: Callable[[Problem], None] | None = None
) -> list[FinishedRecord]:
    """Return every finished run in these folders once, sorted by name within each folder.

    Args:
        paths: Run folders, archived files, or folders of either.
        on_problem: Called with every record that is skipped; by default a warning is issued.
    """
    report = on_problem or (lambda problem: warnings.warn(str(problem), stacklevel=3))
    found: dict[str, FinishedRecord] = {}
    for source in (source for path in paths for source in _sources(Path(path))):
        record = source if isinstance(source, Problem) else _read_source(source)
        if isinstance(record, Problem):
            report(record)
        elif record is not None and (first := found.setdefault(record.run_id, record)) is not record:
            report(_found_again(first, record))
    return list(found.values())


def read_extras(
    paths: Iterable[Path], names: Iterable[str], on_problem: Callable[[Problem], None]
) -> dict[str, Record]:
    """Return the first extra of each name in these folders.

    Args:
        paths: Folders of runs; anything else has no extras.
        names: Names of the extras to read.
        on_problem: Called with every extra that is damaged.
    """
    wanted = list(names)
    found: dict[str, Record] = {}
    for file in (Path(path) / f"{name}.json" for path in paths for name in wanted):
        if file.stem in found or not file.is_file():
            continue
        try:
            content = load_json(file)
        except (OSError, ValueError) as error:
            on_problem(Problem(kind="damaged", path=file, reason=f"cannot be read ({error}). Compute it again"))
            continue
        if isinstance(content, dict) and content.get("kind") == file.stem:
            found[file.stem] = content
    return found


def _sources(path: Path) -> Iterator[Path | Problem]:
    """Yield run folders and files that may be archived records."""
    if path.is_dir() and not (RunFolder(path).begun or RunFolder(path).finished):
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not entry.name.startswith(".") and (entry.is_dir() or entry.name.endswith(SUFFIX)):
                    yield Path(entry.path)
    elif path.exists():
        yield path
    else:
        yield Problem(kind="damaged", path=path, reason="does not exist")


def _read_source(path: Path) -> FinishedRecord | Problem | None:
    """Read a run folder or a file; return None if it is neither a run nor an archived record."""
    try:
        if not path.is_dir():
            return _from_file(path)
        folder = RunFolder(path)
        if folder.finished and os.path.exists(path / DATA_FILE):
            return Problem(kind="own", path=path, reason="a run on own data")
        if folder.finished:
            return _from_folder(folder)
        return Problem(kind="unfinished", path=path, reason="not finished yet") if folder.begun else None
    except RecordError as error:
        reason = str(error)
        for prefix in (f"{path}: ", f"{path} ", f"{path}{os.sep}"):  # a Problem begins with its path anyway
            reason = reason.removeprefix(prefix)
        return Problem(kind="damaged", path=path, reason=reason)


def _from_folder(folder: RunFolder) -> FinishedRecord:
    def curves() -> Curves:
        try:
            return curves_of(folder.epochs())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"{folder.epochs_file} is damaged: {error!r} where epochs of a run should be.") from error

    return _record(finished_summary(folder), folder.path, curves)


def _from_file(path: Path) -> FinishedRecord | None:
    def damaged(reason: object) -> RecordError:
        return RecordError(f"{path}: is damaged ({reason}). Restore it, or archive its run again.")

    def curves() -> Curves:
        try:
            return curves_from_json(content.get("curves"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(f"{error!r} in its curves") from error

    try:
        content = load_json(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise damaged(error) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        return None
    summary: Any = content.get("summary")
    if problem := summary_problem(summary):
        raise damaged(problem)
    if summary["run_id"] != path.name.removesuffix(SUFFIX):
        raise RecordError(f"{path}: holds the run {summary['run_id']}. Rename it to that.")
    return _record(summary, path, curves)


def _record(summary: Record, source: Path, read_curves: Callable[[], Curves]) -> FinishedRecord:
    record = FinishedRecord(
        run_id=summary["run_id"],
        config=summary["config"],
        settings=summary["settings"],
        summary=summary,
        source=source,
        read_curves=read_curves,
    )
    if contradiction := _contradiction(record):
        raise RecordError(f"{source}: is damaged ({contradiction}). Restore it, or train the run again.")
    return record


def _contradiction(record: FinishedRecord) -> str | None:
    """Describe where the summary contradicts the epochs. Damaged curves raise later, where they are needed."""
    try:
        curves = record.curves
    except RecordError:
        return None
    if (epochs := len(curves.validation_accuracy)) != record.summary["epochs_run"]:
        return f"its curves have {epochs} of {record.summary['epochs_run']} epochs"
    for key in ("chosen", "last"):
        said, epoch = record.summary[key], record.summary[key]["epoch"]
        for name in ("validation_accuracy", "test_accuracy"):
            curve = getattr(curves, name)
            if said[name] is not None and epoch <= len(curve) and curve[epoch - 1] != share(said[name]):
                return f"its summary has {key}.{name} {said[name]:.4f}, and epoch {epoch} has {curve[epoch - 1]:.4f}"
    return None


def _found_again(first: FinishedRecord, second: FinishedRecord) -> Problem:
    if different := _differences(first.summary, second.summary):
        reason = f"another result of a run in {first.source}: {'; '.join(different)}. The first one is used"
        return Problem(kind="conflicting", path=second.source, reason=reason)
    return Problem(kind="repeated", path=second.source, reason=f"the same run and result as {first.source}")


def _differences(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Describe where two summaries differ, apart from `CIRCUMSTANCES`."""
    found = []
    for key in dict.fromkeys([*first, *second]):
        one, two = first.get(key), second.get(key)
        if one == two or (not prefix and key in CIRCUMSTANCES):
            continue
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            found += _differences(one, two, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key} is {one!r} and {two!r}")
    return found


def _as_text(content: Record) -> str:
    """Format with a line for each part and for each group of curves: small, yet readable in a diff."""
    parts = {key: _compact(value) for key, value in content.items()}
    groups = (f"{json.dumps(name)}: {_compact(curves)}" for name, curves in content["curves"].items())
    parts["curves"] = "{\n" + ",\n".join(groups) + "\n}"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text}" for key, text in parts.items()) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
