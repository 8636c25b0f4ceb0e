"""Find the run that the RUN argument names: by its folder, name, hash, or as the latest one."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.cli.options import table_options
from tnlpad.cli.output import exit_codes, fail

if TYPE_CHECKING:
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.listing import RankedRun

MAX_NAMES_SHOWN = 3
LATEST = "latest"
MIN_HASH_DIGITS = 4


def find_run(run: str, runs: Path) -> "RunFolder":
    """Return a finished run by its folder, its name or hash, the start of one, or `latest`; exit with 3 if none."""
    with exit_codes():
        found = _matching(run, runs)
    if len(found) != 1:
        trained = f" The last run on these data is {last}." if (last := _last_run_on(run, runs)) is not None else ""
        if found:
            names = ", ".join(folder.path.name for folder in found[:MAX_NAMES_SHOWN])
            more = ", …" if len(found) > MAX_NAMES_SHOWN else "."
            fail(
                f"{run} matches {len(found)} runs: {names}{more}{trained} Give more of the name, or `latest`; "
                f"`tnlpad runs {shlex.quote(str(runs))}` lists them.",
                code=3,
            )
        fail(
            f"there is no run {run}, neither as a folder nor in {runs}.{trained} Give the folder of a run, or its name "
            "and --runs FOLDER; `tnlpad runs FOLDER` lists them.",
            code=3,
        )
    (folder,) = found
    if not folder.finished:
        fail(f"the run in {folder.path} is not finished. Continue it with {_resume_command(folder)}.", code=3)
    return folder


def _matching(run: str, runs: Path) -> "list[RunFolder]":
    """Return the runs that a word may mean, by the first rule that fits any."""
    from tnlpad.records.store import RunFolder, find_runs, is_run

    for path in (Path(run), runs / run):
        if is_run(path):
            return [RunFolder(path)]
    if not run or "/" in run:
        return []
    every = list(find_runs(runs))
    if run == LATEST:
        return [max(every, key=lambda each: each.changed)] if every else []
    rules: tuple[Callable[[RunFolder], bool], ...] = (
        lambda each: each.path.name.startswith(run),
        lambda each: len(run) >= MIN_HASH_DIGITS and _last_word(each.path.name).startswith(run),
        lambda each: _last_word(each.path.name) == _last_word(run),  # the name of the run elsewhere
        lambda each: _dataset(each).startswith(run),  # the start of the name that earlier versions gave
    )
    return next((found for rule in rules if (found := [each for each in every if rule(each)])), [])


def _last_word(name: str) -> str:
    return name.rpartition("_")[2]


def _dataset(folder: "RunFolder") -> str:
    from tnlpad.records.store import RecordError

    try:
        return str(folder.config().get("dataset", ""))
    except RecordError:
        return ""


def find_ranked_run(run: str, runs: Path) -> "RankedRun":
    """Find a run and rank its samples; exit with code 3 if its records are missing or damaged."""
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.listing import rank_run

    folder = find_run(run, runs)
    try:
        return rank_run(folder)
    except RecordError as error:
        fail(str(error), code=3)


def _last_run_on(data: str, runs: Path) -> Path | None:
    """Return the last finished run on these data, in case they were named instead of the run."""
    from tnlpad.records.store import find_runs

    path = os.path.abspath(data)
    found = [each for each in find_runs(runs) if each.finished and _data_file(each).get("path") == path]
    return max(found, key=lambda each: each.summary_file.stat().st_mtime).path if found else None


def _data_file(folder: "RunFolder") -> Mapping[str, Any]:
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.store import RecordError

    try:
        return read_data_file(folder.path) or {}
    except RecordError:
        return {}


def _resume_command(folder: "RunFolder") -> str:
    about = _data_file(folder)
    if not about or folder.config().get("pretrained") is not None:  # no record holds the path of the weights
        return "the command that started it"
    columns = {name: about.get(f"{name}_column") for name in ("text", "group", "id")}
    words = ["tnlpad", "train", about["path"]]
    words += table_options(about.get("label_column"), about.get("ignored", ()), **columns)
    for option, key in {"--images": "images", "--backbone": "backbone", "--weights": "backbone_weights"}.items():
        words += [option, about[key]] if about.get(key) is not None else []
    words += ["--config", str(folder.path / "config.json"), "--out", str(folder.path.parent)]
    return f"`{shlex.join(words)}`"
