"""Choose a setting as the paper does: by noisy validation accuracy, over a small grid with several seeds.

Runs that are judged out of fold are compared by their out-of-fold accuracy on the given labels. Every cell is an
ordinary run, so an interrupted search resumes. Runs also record test accuracies, which are not read here and cannot
influence the choice.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnlpad.data.own import DataShape, OwnDataset
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.config import RunConfig, configure
from tnlpad.runs.recipes import scoring_interval
from tnlpad.runs.run import run


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One value of the setting, with the noisy validation accuracy of each seed's chosen epoch, and its runs."""

    value: Any
    accuracies: tuple[float, ...]
    run_ids: tuple[str, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation (n − 1); None for a single seed."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None


def grid(
    dataset: str | DataShape,
    *,
    field: str,
    values: Sequence[Any],
    seeds: Sequence[int],
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[list[RunConfig]]:
    """Return the runs to compare: a row for each value, a column for each seed.

    Args:
        dataset: A dataset of the catalogue, or the shape of user data.
        field: The setting to choose.
        values: Its values.
        seeds: Random seeds.
        settings: Other settings.
        options: Other arguments of `configure`.
    """
    if field == "resize" and options.get("backbone") is not None:
        raise ValueError(
            "resize is the size of the backbone's images, which are prepared once. Choose another setting."
        )
    if field in (settings or {}):
        raise ValueError(f"{field} is the setting to choose: leave out --set {field}=….")
    for name, each in (("values", values), ("seeds", seeds)):
        if not each:
            raise ValueError(f"{name} are missing: give at least one.")
    rows = [
        [configure(dataset, seed=seed, settings={**(settings or {}), field: value}, **options) for seed in seeds]
        for value in values
    ]
    names = [config.run_id for row in rows for config in row]
    if len(set(names)) < len(names):
        raise ValueError(f"{field}: a value or a seed is given twice. Give each once.")
    return rows


def tune(
    rows: Sequence[Sequence[RunConfig]],
    field: str,
    out: Path,
    *,
    own: OwnDataset | None = None,
    root: Path | None = None,
    weights: Path | None = None,
    backbone: AnyBackbone | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    on_run: Callable[[int, int], None] | None = None,
) -> list[Tried]:
    """Finish all runs and return their validation accuracies, in the order given.

    Args:
        rows: The runs, as `grid` returns them.
        field: The setting in which the rows differ.
        out: Folder of all runs.
        own, root, weights, backbone, cache, device: As for `run`. Runs on user data score their samples, so that
            `tnlpad train` finds them complete.
        on_run: Called after each run with the number of finished runs and that of all runs.
    """
    total, done, tried = sum(len(row) for row in rows), 0, []
    for row in rows:
        accuracies, names = [], []
        for config in row:
            folder = run(
                config,
                out,
                own=own,
                root=root,
                weights=weights,
                backbone=backbone,
                cache=cache,
                device=device,
                scoring_interval=None if own is None else scoring_interval(config.epochs),
            )
            accuracies.append(float(folder.summary()["chosen"]["validation_accuracy"]))
            names.append(folder.path.name)
            done += 1
            if on_run is not None:
                on_run(done, total)
        value = row[0].options[field] if field in row[0].options else getattr(row[0], field)
        tried.append(Tried(value=value, accuracies=tuple(accuracies), run_ids=tuple(names)))
    return tried


def judged_by(config: RunConfig) -> str:
    """Return the word for the validation accuracy of a run: noisy, clean or out-of-fold."""
    return config.validation if config.folds is None else "out-of-fold"


def winner(tried: Sequence[Tried]) -> Tried:
    """Return the value of the highest mean, the first of equal ones."""
    return max(tried, key=lambda each: each.mean)


def document(tried: Sequence[Tried], field: str, validation: str) -> dict[str, Any]:
    """Return the result as plain data, with the rule of the choice and the runs."""
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
