"""The file that the two drawings are made from."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.parameter_space.descent import two_weights
from tnlpad.experiments.parameter_space.network import commands, configurations, network_paths
from tnlpad.experiments.parameter_space.problem import Problem
from tnlpad.records.store import to_json, write_by_rename

NAME = "parameter_space"


def compute(
    out: Path,
    *,
    settings: Mapping[str, Any],
    seed: int = 1,
    root: Path | None = None,
    device: str = "cpu",
    problem: Problem = Problem(),
) -> Path:
    """Make `OUT/parameter_space.json`, in seconds and always the same; what is there already is left.

    Args:
        out: The folder of all runs.
        settings, seed, root, device: Of the network's runs.
        problem: The one with two weights.
    """
    configs = configurations(settings=settings, seed=seed)
    path = out / f"{NAME}.json"
    if not _is_there(path, problem, configs):
        document = {
            "kind": NAME,
            "two_weights": two_weights(problem),
            "real_run": network_paths(configs, root, device),
        }
        out.mkdir(parents=True, exist_ok=True)
        write_by_rename(path, to_json(document))
    return path


def _is_there(path: Path, problem: Problem, configs: Mapping[str, RunConfig]) -> bool:
    """A file that cannot be read, or is about something else, is none."""
    try:
        found = json.loads(path.read_bytes())
        known = (found["two_weights"]["problem"], found["real_run"]["commands"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return known == (json.loads(json.dumps(asdict(problem))), commands(configs))
