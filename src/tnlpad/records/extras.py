"""What was computed for figures beside the runs: one file `NAME.json` in the folder of runs, with `"kind": NAME`."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from tnlpad.records.archive import Problem
from tnlpad.records.store import Record


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
