"""A finished run as a parcel: made on one machine, sent to another, and put there as if it had been made there.

For machines that share no folder. The checkpoint stays behind: a finished run needs none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tnlpad.records.store import RecordError, RunFolder, write_by_rename


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """The content of a finished run's files by their names, such as `config.json` or `tensorboard/events`."""

    files: Mapping[str, bytes]


def pack(folder: RunFolder) -> Parcel | None:
    """All that is worth sending of a run; None if it is not finished."""
    if not folder.finished:
        return None
    files = {path.relative_to(folder.path).as_posix(): path for path in folder.path.rglob("*") if path.is_file()}
    return Parcel(files={name: path.read_bytes() for name, path in files.items() if _is_sent(folder, name)})


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
                (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
                write_by_rename(folder.path / name, content)
        folder.error_file.unlink(missing_ok=True)
        write_by_rename(folder.summary_file, parcel.files[last])


def _is_sent(folder: RunFolder, name: str) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
    return name not in (folder.checkpoint_file.name, folder.lock_file.name) and not hidden


def _require_whole(parcel: Parcel, folder: RunFolder) -> None:
    """Refuse what is no finished run, is another one, or would write elsewhere than into the run's folder."""
    for name in parcel.files:
        path = PurePosixPath(name)
        if not path.name or path.is_absolute() or str(path) != name or not _is_sent(folder, name):
            raise RecordError(
                f"A run was sent with a file called {name!r}, which is no name for a record. It is not used."
            )
    for file in (folder.config_file, folder.epochs_file, folder.model_file, folder.summary_file):
        if file.name not in parcel.files:
            raise RecordError(f"A run was sent without its {file.name}: {folder.path} is not written. Run it again.")
    run_id = json.loads(parcel.files[folder.summary_file.name]).get("run_id")
    if run_id != folder.path.name:
        raise RecordError(f"{run_id!r} was sent where {folder.path.name} was expected. It is not used.")
