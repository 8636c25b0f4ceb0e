"""Compare what two trainings left behind."""

import math
from collections.abc import Iterator
from typing import Any

import torch

TOLERANCE = 1e-10  # of weights, in double precision


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested containers with its path."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, (list, tuple)):
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}.{place}")
    else:
        yield path, tree


def different(first: Any, second: Any) -> list[str]:
    """Return the paths at which two trees differ."""
    ours, theirs = dict(leaves(first)), dict(leaves(second))
    assert ours.keys() == theirs.keys()
    return [path for path in ours if not _close(ours[path], theirs[path])]


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=TOLERANCE)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6)  # measured in single precision
    return bool(a == b)


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of epochs without what differs between any two runs."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]
