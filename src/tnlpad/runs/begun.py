"""Find runs on user images that were started before their memory layout became a setting."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tnlpad.data.own import OwnDataset
from tnlpad.runs.config import RunConfig
from tnlpad.runs.run import run_folder


def as_begun(
    configs: Sequence[RunConfig], out: Path, own: OwnDataset | None, settings: Mapping[str, Any]
) -> list[RunConfig]:
    """Return the configurations without a memory layout if only such runs were started in `out`, else unchanged.

    So the same command resumes a run of an earlier version with the same numbers.

    Args:
        configs: Configurations that differ in other fields.
        out: Folder of all runs.
        own: User data.
        settings: Settings that the user named, which are kept.
    """
    earlier = [replace(config, channels_last=None) for config in configs]
    if own is None or "channels_last" in settings or _begun(configs, out, own) or not _begun(earlier, out, own):
        return list(configs)
    return earlier


def _begun(configs: Sequence[RunConfig], out: Path, own: OwnDataset) -> bool:
    return any(run_folder(config, out, own).begun for config in configs)
