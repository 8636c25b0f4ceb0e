"""Choose a setting as the paper does: by the noisy validation accuracy, over a small grid, some seeds each.

Every cell is an ordinary run, so a search that was interrupted goes on where it was, and its runs serve other purposes
as well. A run measures the test set for its own record; nothing here reads those numbers, so they cannot choose.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnlpad.runs.config import Protocol, RunConfig, configure
from tnlpad.runs.run import run


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One value of the field: the noisy validation accuracy at each seed's chosen epoch, and the runs behind it."""

    value: Any
    accuracies: tuple[float, ...]
    run_ids: tuple[str, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def sd(self) -> float | None:
        """Of the sample, with n − 1; a single seed has none."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None


def grid(
    dataset: str,
    *,
    field: str,
    values: Sequence[Any],
    seeds: Sequence[int],
    noise: str = "none",
    protocol: Protocol = "paper",
    method: str = "tnlpad",
    network: str | None = None,
    device: str = "cpu",
    settings: dict[str, Any] | None = None,
) -> list[list[RunConfig]]:
    """The runs to compare: a row for every value, a column for every seed."""
    if field in (settings or {}):
        raise ValueError(f"{field} is what is being chosen: leave out --set {field}=….")
    for name, given in (("values", values), ("seeds", seeds)):
        if not given:
            raise ValueError(f"{name} are missing: give at least one.")
    rows = [
        [
            configure(
                dataset,
                noise=noise,
                protocol=protocol,
                method=method,
                network=network,
                seed=seed,
                device=device,
                settings={**(settings or {}), field: value},
            )
            for seed in seeds
        ]
        for value in values
    ]
    names = [config.run_id for row in rows for config in row]
    if len(set(names)) < len(names):
        raise ValueError(f"{field}: a value or a seed is given twice. Give each once.")
    return rows


def value_of(config: RunConfig, field: str) -> Any:
    """A field of the run or of its method."""
    return config.options[field] if field in config.options else getattr(config, field)


def tune(
    rows: Sequence[Sequence[RunConfig]],
    field: str,
    out: Path,
    *,
    root: Path | None = None,
    device: str = "cpu",
    on_run: Callable[[int, int], None] | None = None,
) -> list[Tried]:
    """Carry every run to its end and collect the validation accuracies, in the order given."""
    total, done, tried = sum(len(row) for row in rows), 0, []
    for row in rows:
        accuracies = []
        for config in row:
            folder = run(config, out, root=root, device=device)
            accuracies.append(float(folder.summary()["chosen"]["validation_accuracy"]))
            done += 1
            if on_run is not None:
                on_run(done, total)
        ids = tuple(config.run_id for config in row)
        tried.append(Tried(value=value_of(row[0], field), accuracies=tuple(accuracies), run_ids=ids))
    return tried


def winner(tried: Sequence[Tried]) -> Tried:
    """The value of the highest mean; of equal ones the first."""
    return max(tried, key=lambda each: each.mean)


def document(tried: Sequence[Tried], field: str, validation: str) -> dict[str, Any]:
    """The result as plain data, with the rule it was chosen by and the runs behind it."""
    return {
        "field": field,
        "chosen": winner(tried).value,
        "selection": f"highest mean {validation} validation accuracy, each run at its own best epoch; first of equals",
        "tried": [
            {
                "value": each.value,
                "validation_accuracy": {"mean": each.mean, "sd": each.sd, "n": len(each.accuracies)},
                "runs": dict(zip(each.run_ids, each.accuracies, strict=True)),
            }
            for each in tried
        ],
    }
