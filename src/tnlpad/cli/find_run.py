"""Find the run that the RUN argument names: a folder, or a name below the folder of runs."""

import glob
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.cli.options import table_options
from tnlpad.cli.output import fail

if TYPE_CHECKING:
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.listing import RankedRun

MAX_NAMES_SHOWN = 3


def find_run(run: str, runs: Path) -> "RunFolder":
    """Return a finished run by its folder, its name, or the beginning of a name; exit with code 3 if there is none."""
    from tnlpad.records.store import RunFolder

    close = sorted(runs.glob(f"{glob.escape(run)}*/config.json")) if "/" not in run and run else []
    candidates = [Path(run), runs / run, *([close[0].parent] if len(close) == 1 else [])]
    folder = next((RunFolder(path) for path in candidates if (path / "config.json").is_file()), None)
    if folder is None:
        trained = f" The last run on these data is {found}." if (found := _last_run_on(run, runs)) is not None else ""
        if len(close) > 1:
            names = ", ".join(path.parent.name for path in close[:MAX_NAMES_SHOWN])
            more = ", …" if len(close) > MAX_NAMES_SHOWN else "."
            fail(f"{run} matches {len(close)} runs: {names}{more}{trained} Give more of the name.", code=3)
        fail(
            f"there is no run {run}, neither as a folder nor in {runs}.{trained} Give the folder of a run, or "
            "its name and --runs FOLDER.",
            code=3,
        )
    if not folder.finished:
        fail(f"the run in {folder.path} is not finished. Continue it with {_resume_command(folder)}.", code=3)
    return folder


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
    from tnlpad.records.scores import read_data_file
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
