"""Checksums of a finished run's artefacts, kept in its `summary.json` with one of the summary itself.

    "format": 2,
    "sha256": {"files": {"model.safetensors": "…", …}, "summary": "…"}

The checksum of the summary is of its content, not of its bytes, without that checksum. Runs of format 1 have neither of
these fields. A summary that has one of them without the other is damaged. While artefacts are replaced, `replaced_by`
holds the checksums of their next content, so that a run loads whenever a process is killed. The next process that
replaces artefacts settles those: which of them were replaced is seen from their content.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tnlpad.regular_files import open_regular
from tnlpad.schema import Optional, problem

FORMAT = 2
ARTEFACTS = (
    *("config.json", "epochs.jsonl", "model.safetensors", "scores.parquet", "pred_probs.npy"),
    *("data.json", "samples.parquet", "decided.csv", "encoder/*", "projection/*"),
)
FORMAT_KEY, KEY = "format", "sha256"
_verified: set[tuple[str | int, ...]] = set()  # files, as they were when this process checked them


@dataclass(frozen=True, kw_only=True)
class Checksums:
    """Checksums by the names of files in a run folder.

    Args:
        files: SHA-256 of each artefact.
        replaced_by: SHA-256 of the next content of artefacts that are about to be replaced.
    """

    files: Mapping[str, str]
    replaced_by: Mapping[str, str] = field(default_factory=dict)

    def expected(self, name: str) -> tuple[str, ...]:
        """Return the checksums that a file may have; none if it is not an artefact of the run."""
        return tuple(found[name] for found in (self.files, self.replaced_by) if name in found)

    def settled(self, run: Path) -> "Checksums":
        """Return the checksums of a run folder after a process was killed while it replaced artefacts there."""
        there = {name: digest for name, digest in self.replaced_by.items() if (run / name).is_file()}
        done = {name: digest for name, digest in there.items() if sha256_of(run / name) == digest}
        return Checksums(files={**self.files, **done})

    def replacing(self, files: Mapping[str, str]) -> "Checksums":
        """Return the checksums that hold until these files are replaced."""
        return replace(self, replaced_by=files)

    @property
    def replaced(self) -> "Checksums":
        """The checksums after that."""
        return Checksums(files={**self.files, **self.replaced_by})


def checksums_of(run: Path) -> Checksums:
    """Compute the checksums of all artefacts in a run folder."""
    found = sorted(path for pattern in ARTEFACTS for path in run.glob(pattern) if path.is_file())
    names = [path.relative_to(run).as_posix() for path in found if not path.name.startswith(".")]
    return Checksums(files={name: sha256_of(run / name) for name in names})


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, which is read in small parts."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_intact(path: Path, expected: tuple[str, ...]) -> bool:
    """Return whether a file has one of these checksums; computed once per process unless the file changes."""
    status = os.stat(path)
    state = (os.path.abspath(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if any((*state, digest) in _verified for digest in expected):
        return True
    found = sha256_of(path)
    if found in expected:
        _verified.add((*state, found))
    return found in expected


def sealed(summary: Mapping[str, Any], checksums: Checksums) -> dict[str, Any]:
    """Return the content of `summary.json`: the summary with its format and all checksums."""
    digests: dict[str, Any] = {"files": dict(checksums.files)}
    if checksums.replaced_by:
        digests["replaced_by"] = dict(checksums.replaced_by)
    content = {**summary, FORMAT_KEY: FORMAT, KEY: digests}
    return {**content, KEY: {**digests, "summary": _digest(content)}}


def unsealed(content: Mapping[str, Any]) -> tuple[dict[str, Any], Checksums | None]:
    """Return the summary and the checksums in `summary.json`; None for a run of format 1.

    Raises:
        ValueError: The summary is not as it was written.
    """
    summary = {key: value for key, value in content.items() if key not in (FORMAT_KEY, KEY)}
    if FORMAT_KEY not in content and KEY not in content:
        return summary, None
    digests = dict(found) if isinstance(found := content.get(KEY), dict) else {}
    own = digests.pop("summary", None)
    if own != (actual := _digest({**content, KEY: digests})):
        raise ValueError(f"the SHA-256 of its content is {actual[:12]}…, and {str(own)[:12]}… is expected")
    if found := problem(digests, {"files": dict[str, str], "replaced_by": Optional(dict[str, str])}, f"{KEY}."):
        raise ValueError(found)
    return summary, Checksums(files=digests["files"], replaced_by=digests.get("replaced_by", {}))


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
