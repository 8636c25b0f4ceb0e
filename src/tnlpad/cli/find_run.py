"""RUN on the command line: the folder of a finished run, or its name below the folder of all runs."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.cli.options import table_options
from tnlpad.cli.output import fail
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.listing import JudgedSamples


def find_run(run: str, runs: Path) -> "RunFolder":
    """The folder of a finished run, by path, by name, or by the beginning of a name that no other run has."""
    from tnlpad.records.store import RunFolder

    close = sorted(runs.glob(f"{_literal(run)}*/config.json")) if "/" not in run and run else []
    candidates = [Path(run), runs / run, *([close[0].parent] if len(close) == 1 else [])]
    folder = next((RunFolder(path) for path in candidates if (path / "config.json").is_file()), None)
    if folder is None:
        several = f" {len(close)} runs begin with it." if len(close) > 1 else ""
        trained = f" Trained on it was {found}." if (found := _run_on(run, runs)) is not None else ""
        fail(
            f"there is no run {run}, neither as a folder nor in {runs}.{several}{trained} Give the folder of a run, or "
            "its name and --runs FOLDER.",
            code=3,
        )
    if not folder.finished:
        fail(f"the run in {folder.path} is not finished. Go on with {_command(folder)}.", code=3)
    return folder


def judged_run(run: str, runs: Path) -> "JudgedSamples":
    """The run's samples in order of suspicion."""
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.listing import judged

    folder = find_run(run, runs)
    try:
        folder.config()  # these three are read again, where nobody asks whether they can be
        folder.summary()
        read_data_file(folder.path)
        return judged(folder)
    except RecordError as error:
        fail(str(error), code=3)


def run_data(folder: "RunFolder", quiet: bool) -> "OwnDataset":
    """The person's own data that a run was about, from where they lay."""
    from tnlpad.errors import DataError
    from tnlpad.suspects.listing import open_run_data

    try:
        with progress_reporter(quiet) as reporter:
            return open_run_data(folder, reporter)
    except DataError as error:
        fail(str(error), code=3)


def _run_on(data: str, runs: Path) -> Path | None:
    """The last of the finished runs on these data, which may have been named in place of it."""
    from tnlpad.records.store import find_runs

    here = os.path.abspath(data)
    found = [each for each in find_runs(runs) if each.finished and _remembered(each).get("path") == here]
    return max(found, key=lambda each: each.summary_file.stat().st_mtime).path if found else None


def _remembered(folder: "RunFolder") -> Mapping[str, Any]:
    """Of the person's own data that a run is about; nothing of published ones, or where that is damaged."""
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError

    try:
        return read_data_file(folder.path) or {}
    except RecordError:
        return {}


def _command(folder: "RunFolder") -> str:
    """The one that goes on with a run on a person's own data, who may not remember how it was begun."""
    about = _remembered(folder)
    if not about or folder.config().get("pretrained") is not None:  # where the file of weights lies, no record says
        return "the command that began it"
    words = ["tnlpad", "train", about["path"], *table_options(about.get("label_column"), about.get("ignored", ()))]
    words += ["--images", about["images"]] if about["images"] is not None else []
    words += ["--config", str(folder.path / "config.json"), "--out", str(folder.path.parent)]
    return f"`{shlex.join(words)}`"


def _literal(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
