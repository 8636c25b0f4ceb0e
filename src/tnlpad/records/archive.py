"""Records of finished runs as one small file each, and a reader of finished runs wherever they lie.

A run folder holds weights and every number; `RUN_ID.json` holds the summary and the rounded curves, a few kilobytes to
be kept under version control. Both read the same: a table or figure cannot tell which of the two it was made from.

    {
    "kind": "run",
    "summary": {…},
    "curves": {…}
    }

What was computed for figures beside the runs: one file `NAME.json` in the folder of runs, with `"kind": NAME`.
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
from tnlpad.records.curves import Curves, curves_from_json, curves_of
from tnlpad.records.scores import DATA_FILE
from tnlpad.records.store import Record, RecordError, RunFolder, finished_summary, problem_of

KIND = "run"
SUFFIX = ".json"
# Where and how fast a run was carried out: two that differ only here have the same result.
CIRCUMSTANCES = ("seconds", "machine", "versions")


@dataclass(frozen=True, kw_only=True)
class FinishedRecord:
    """A finished run: what it was, how it ended, and on demand how it went.

    Args:
        run_id: Its name.
        config: The whole configuration, as plain data.
        settings: Where the configuration departs from the recipe of its dataset, noise, protocol, method and network.
        summary: Everything else about its end; accuracies are shares of 1.
        source: The run folder or archived file that it was read from.
    """

    run_id: str
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    source: Path
    read_curves: Callable[[], Curves] = field(repr=False, compare=False)

    @cached_property
    def curves(self) -> Curves:
        """Read when first asked for; raises `RecordError` where they are damaged."""
        return self.read_curves()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A record that is left out, and why.

    `damaged` cannot be read; `unfinished` has begun and has no summary yet; `repeated` is there a second time with the
    same result, `conflicting` with another one, and the first one found is used; `own` is about a person's own data,
    which have no place beside published numbers.
    """

    kind: Literal["damaged", "unfinished", "repeated", "conflicting", "own"]
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def archive(folder: RunFolder) -> Record:
    """A finished run as the content of its archived file."""
    record = _from_folder(folder)
    if record.config.get("noise_file_sha256") is not None:
        raise RecordError(
            f"{folder.path} was trained on the labels of a file ({record.config['noise']}), which nobody else has: "
            "such runs are not archived. Leave it out."
        )
    return {"kind": KIND, "summary": dict(record.summary), "curves": record.curves.to_json()}


def write_archived(content: Record, out: Path) -> bool:
    """Write an archived record under its name; False if it is there already. Another result is never overwritten."""
    path = out / f"{content['summary']['run_id']}{SUFFIX}"
    if path.exists():
        known = _from_file(path)
        if known is None:
            raise RecordError(f"{path} is there already and no record of a run. Name another folder, or move it away.")
        different = _differences(known.summary, content["summary"])
        different += [] if known.curves.to_json() == content["curves"] else ["its curves are not the same"]
        if different:
            raise RecordError(
                f"{path} holds another result of this run: {'; '.join(different)}. Remove the one that is wrong."
            )
        return False
    write_by_rename(path, _as_text(content).encode())
    return True


def finished_records(
    paths: Iterable[Path], on_problem: Callable[[Problem], None] | None = None
) -> list[FinishedRecord]:
    """Every finished run in these folders, once, in the order of their names within each.

    Args:
        paths: Folders of run folders or of archived files, or of both; also single ones of either.
        on_problem: Told of every record that is left out; by default a warning is given.
    """
    report = on_problem or _warn
    found: dict[str, FinishedRecord] = {}
    for source in (source for path in paths for source in _sources(Path(path))):
        record = source if isinstance(source, Problem) else _read_source(source)
        if isinstance(record, Problem):
            report(record)
        elif record is not None and (first := found.setdefault(record.run_id, record)) is not record:
            report(_second(first, record))
    return list(found.values())


def _sources(path: Path) -> Iterator[Path | Problem]:
    """Run folders and files that may be archived records."""
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
    """The record that lies here; None where something else does."""
    try:
        if not path.is_dir():
            return _from_file(path)
        folder = RunFolder(path)
        if folder.finished and (path / DATA_FILE).exists():
            return Problem(kind="own", path=path, reason="a run on somebody's own data")
        if folder.finished:
            return _from_folder(folder)
        return Problem(kind="unfinished", path=path, reason="not finished yet") if folder.begun else None
    except RecordError as error:
        reason = str(error)
        for said in (f"{path}: ", f"{path} ", f"{path}{os.sep}"):  # as it is anyway
            reason = reason.removeprefix(said)
        return Problem(kind="damaged", path=path, reason=reason)


def _from_folder(folder: RunFolder) -> FinishedRecord:
    return _record(finished_summary(folder), folder.path, lambda: _folder_curves(folder))


def _folder_curves(folder: RunFolder) -> Curves:
    try:
        return curves_of(folder.epochs())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{folder.epochs_file} is damaged: {error!r} where a run's epochs should be.") from error


def _from_file(path: Path) -> FinishedRecord | None:
    try:
        content = json.loads(_read(path))
    except ValueError as error:
        raise RecordError(f"{path}: is damaged ({error}). Restore it, or archive its run again.") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        return None  # JSON of some other purpose
    summary: Any = content.get("summary")
    curves = content.get("curves")
    if problem := problem_of(summary):
        raise RecordError(f"{path}: is damaged ({problem}). Restore it, or archive its run again.")
    record = _record(summary, path, lambda: _file_curves(curves, path))
    if record.run_id != path.name.removesuffix(SUFFIX):
        raise RecordError(f"{path}: holds the run {record.run_id}. Give it that name.")
    return record


def _file_curves(plain: Any, path: Path) -> Curves:
    try:
        return curves_from_json(plain)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{path}: is damaged ({error!r} in its curves)"
        raise RecordError(f"{problem}. Restore it, or archive its run again.") from error


def _record(summary: Record, source: Path, read_curves: Callable[[], Curves]) -> FinishedRecord:
    return FinishedRecord(
        run_id=summary["run_id"],
        config=summary["config"],
        settings=summary["settings"],
        summary=summary,
        source=source,
        read_curves=read_curves,
    )


def _second(first: FinishedRecord, second: FinishedRecord) -> Problem:
    if different := _differences(first.summary, second.summary):
        reason = f"another result of a run that {first.source} has: {'; '.join(different)}. The first one is used"
        return Problem(kind="conflicting", path=second.source, reason=reason)
    return Problem(kind="repeated", path=second.source, reason=f"the same run and result as {first.source}")


def _differences(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Where two summaries differ, in words."""
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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _as_text(content: Record) -> str:
    """A line for each of the three parts and for each group of curves: small, and still to be looked at."""
    parts = {key: _compact(value) for key, value in content.items()}
    groups = (f"{json.dumps(name)}: {_compact(curves)}" for name, curves in content["curves"].items())
    parts["curves"] = "{\n" + ",\n".join(groups) + "\n}"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text}" for key, text in parts.items()) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _warn(problem: Problem) -> None:
    warnings.warn(str(problem), stacklevel=3)


def read_extras(
    paths: Iterable[Path], names: Iterable[str], on_problem: Callable[[Problem], None]
) -> dict[str, Record]:
    """By name, the first that is found in these folders; one that is damaged is reported and left out.

    Args:
        paths: Folders of runs; single runs and files have none.
        names: Of the figures that may have some.
        on_problem: Told of what is damaged.
    """
    wanted = list(names)
    found: dict[str, Record] = {}
    for file in (Path(path) / f"{name}.json" for path in paths for name in wanted):
        if file.stem in found or not file.is_file():
            continue
        try:
            content = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            on_problem(Problem(kind="damaged", path=file, reason=f"cannot be read ({error}). Compute it again"))
            continue
        if isinstance(content, dict) and content.get("kind") == file.stem:
            found[file.stem] = content
    return found
