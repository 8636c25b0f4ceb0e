"""Every network of the demo, for every seed and candidate c2, and the choice of c2."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.task import load_raw_digits
from tnlpad.experiments.demo.training import Curves, Job, train
from tnlpad.experiments.executors import execute

METHODS = ("plain", "w", "sigma")
TUNE_LEARNING_RATES = (0.01, 0.02, 0.05)
TUNE_WEIGHT_DECAYS = (1e-3, 1e-2, 4e-2)

Progress = Callable[[int, int], None]  # networks trained so far, networks in all


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """Curves by method ("plain", "w", "sigma"), one for each seed; σ's and w's are those of the chosen c2."""

    config: DemoConfig
    curves: Mapping[str, tuple[Curves, ...]]
    chosen_c2: float
    validation_by_c2: Mapping[float, tuple[float, ...]]
    seconds: float


def run_demo(config: DemoConfig, *, workers: int = 1, progress: Progress | None = None) -> DemoResult:
    """Train every seed by plain SGD and by the decomposition with every candidate c2, and choose c2.

    Args:
        config: What to train.
        workers: How many networks to train at once; more than one are processes of their own. The numbers do not
            depend on it.
        progress: Called with the number of networks trained and their total, after each.
    """
    start = time.perf_counter()
    outcomes = _train_all(_jobs(config), workers, progress)
    return _result(config, outcomes, time.perf_counter() - start)


def tune(config: DemoConfig, *, workers: int = 1, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Noisy validation accuracy of both methods over learning rates and weight decays; the test set is not reported.

    For every pair: mean over the seeds in the last epoch and in the epoch chosen on noisy validation, with σ's c2
    chosen anew for the pair.
    """
    configs = [
        replace(config, learning_rate=learning_rate, weight_decay=weight_decay)
        for learning_rate in TUNE_LEARNING_RATES
        for weight_decay in TUNE_WEIGHT_DECAYS
    ]
    outcomes = _train_all([job for each in configs for job in _jobs(each)], workers, progress)
    cells = []
    for each in configs:
        result = _result(each, {job: curves for job, curves in outcomes.items() if job.config == each}, math.nan)
        cells.append(
            {
                "learning_rate": each.learning_rate,
                "weight_decay": each.weight_decay,
                "c2": result.chosen_c2,
                "validation_last_epoch": _means(result, lambda curves: curves.validation[-1]),
                "validation_chosen_epoch": _means(result, lambda curves: max(curves.validation)),
            }
        )
    return cells


def _means(result: DemoResult, value: Callable[[Curves], float]) -> dict[str, float]:
    return {method: statistics.fmean(map(value, result.curves[method])) for method in METHODS}


def _jobs(config: DemoConfig) -> list[Job]:
    return [Job(config, seed, c2) for seed in config.seeds for c2 in (None, *config.c2_candidates)]


def _result(config: DemoConfig, outcomes: Mapping[Job, dict[str, Curves]], seconds: float) -> DemoResult:
    validation_by_c2 = {
        c2: tuple(outcomes[Job(config, seed, c2)]["sigma"].validation[-1] for seed in config.seeds)
        for c2 in config.c2_candidates
    }
    # max keeps the first of equals: the smaller c2 when the candidates are given in increasing order.
    chosen = max(config.c2_candidates, key=lambda c2: statistics.fmean(validation_by_c2[c2]))
    curves = {
        method: tuple(
            outcomes[Job(config, seed, None if method == "plain" else chosen)][method] for seed in config.seeds
        )
        for method in METHODS
    }
    return DemoResult(
        config=config, curves=curves, chosen_c2=chosen, validation_by_c2=validation_by_c2, seconds=seconds
    )


def _train_all(jobs: Sequence[Job], workers: int, progress: Progress | None) -> dict[Job, dict[str, Curves]]:
    report = progress or (lambda done, total: None)
    raw = load_raw_digits()
    outcomes: dict[Job, dict[str, Curves]] = {}
    report(0, len(jobs))
    # A process for one worker would only take longer: nothing here is large enough to crash.
    trained = execute(partial(train, raw), jobs, workers=workers if workers > 1 else 0)
    with closing(trained):  # at once, also when `progress` raises: processes must not go on for no one
        for outcome in trained:
            if outcome.value is None:
                raise RuntimeError(f"{outcome.job} failed: {outcome.error}\n{outcome.traceback or ''}")
            outcomes[outcome.job] = outcome.value
            report(len(outcomes), len(jobs))
    return outcomes
