"""What stands in the folder of runs already, for whoever wants to go on with it."""

from pathlib import Path
from typing import TYPE_CHECKING

from tnlpad.cli.output import fail, say

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.experiments.config import RunConfig


def require_begun(config: "RunConfig", out: Path) -> None:
    """Refuse to resume what was never begun."""
    from tnlpad.records.store import RunFolder

    folder = RunFolder(out / config.run_id)
    if not folder.begun:
        fail(
            f"there is nothing to resume in {folder.path}. Leave out --resume to begin this run, or check that the "
            "words, --set and --out are those it was begun with.",
            code=3,
        )


def tell_of_changed_data(config: "RunConfig", own: "OwnDataset | None", out: Path, resume: bool, quiet: bool) -> None:
    """Data that have changed make another run: whoever wants to go on with an old one is told so."""
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.store import RecordError, RunFolder, find_runs

    if own is None or RunFolder(out / config.run_id).begun:
        return
    here = str(own.source.absolute())
    for folder in find_runs(out):
        try:
            remembered = read_data_file(folder.path) or {}
        except RecordError:
            continue
        same = (
            remembered.get("path") == here
            and remembered.get("label_column") == own.label_column
            and remembered.get("ignored", []) == list(own.ignored)
        )
        if same and remembered.get("fingerprint") != own.shape.fingerprint:
            changed = f"{own.source} has changed since {folder.path.name} was begun"
            if resume:
                fail(f"{changed}, and a run goes on with the same data only. Restore them, or leave out --resume.", 3)
            say(f"{changed}: this is a new run.", quiet)
            return
