"""A finished run as a parcel: made on one machine, sent to another, and put there as if it had been made there.

For machines that share no folder. The checkpoint stays behind: a finished run needs none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tnlpad.records.store import RecordError, RunFolder, write_by_rename


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """The content of a finished run's files by their names."""

    files: Mapping[str, bytes]


def pack(folder: RunFolder) -> Parcel | None:
    """All that is worth sending of a run; None if it is not finished."""
    if not folder.finished:
        return None
    return Parcel(files={path.name: path.read_bytes() for path in folder.path.iterdir() if _is_sent(folder, path)})


def unpack(parcel: Parcel, folder: RunFolder) -> None:
    """Put a run into its folder, unless a finished one is there.

    A run may be made twice, if a machine is given up too early, and the first to arrive stays. What an unfinished run
    left here is replaced. The summary comes last, as always, so that the run is there whole or is not finished.
    """
    _require_whole(parcel, folder)
    with folder.lock():
        if folder.finished:
            return
        folder.begin(json.loads(parcel.files[folder.config_file.name]))
        # First: with other epochs beside it, a checkpoint would continue a run that never was.
        folder.checkpoint_file.unlink(missing_ok=True)
        last = folder.summary_file.name
        for name, content in parcel.files.items():
            if name != last:
                write_by_rename(folder.path / name, content)
        write_by_rename(folder.summary_file, parcel.files[last])


def _is_sent(folder: RunFolder, path: PurePath) -> bool:
    return path not in (folder.checkpoint_file, folder.lock_file) and not path.name.startswith(".")


def _require_whole(parcel: Parcel, folder: RunFolder) -> None:
    """Refuse what is no finished run, is another one, or would write elsewhere than into the run's folder."""
    for name in parcel.files:
        if not name or PurePath(name).name != name or not _is_sent(folder, folder.path / name):
            raise RecordError(
                f"A run was sent with a file called {name!r}, which is no name for a record. It is not used."
            )
    for file in (folder.config_file, folder.epochs_file, folder.model_file, folder.summary_file):
        if file.name not in parcel.files:
            raise RecordError(f"A run was sent without its {file.name}: {folder.path} is not written. Run it again.")
    run_id = json.loads(parcel.files[folder.summary_file.name]).get("run_id")
    if run_id != folder.path.name:
        raise RecordError(f"{run_id!r} was sent where {folder.path.name} was expected. It is not used.")
