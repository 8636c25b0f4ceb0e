"""Finished runs whose records are edited, as another version might have written them."""

import json

from tnlpad.records.checksums import FORMAT_KEY, KEY, checksums_of, sealed
from tnlpad.records.store import to_json
from tnlpad.suspects import audit_files


def edit(path, change):
    """Change the content of a JSON file; if it is of a finished run or an audit, the checksums are made to fit."""
    content = json.loads(path.read_text())
    checksum = content.pop("checksum", None)
    change(content)
    if checksum is not None:
        content["checksum"] = audit_files._checksum(content)
    path.write_text(json.dumps(content))
    if (path.parent / "summary.json").exists():
        reseal(path.parent)


def reseal(run):
    """Write the checksums of a run's present files into its summary, if it has checksums."""
    content = json.loads((run / "summary.json").read_text())
    if KEY in content:
        (run / "summary.json").write_bytes(to_json(sealed(_plain(content), checksums_of(run))))


def without_checksums(run):
    """Turn a run into one of an earlier version."""
    content = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_bytes(to_json(_plain(content)))


def _plain(content):
    return {key: value for key, value in content.items() if key not in (FORMAT_KEY, KEY)}
