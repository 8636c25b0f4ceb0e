"""Coverage and width of the audit's intervals.

Labels of known data are moved to other classes at random. Samples of them are drawn by each design, with the truth as
the person who decides. The share of the 95 % intervals that hold the true share must be at least 94 %. With 1,000
samples it has a standard error of 0.7 points. Simple random samples are drawn five times as often, since they have few
different results: one of 36 rows was at 93.3 % by chance with 1,000. Their coverage is also computed exactly, from the
probabilities of all results. The data are scikit-learn's digits, of which a sample of 200 is a ninth, and 10,000 made
points of ten classes of unequal size. The design by confidence uses 1 − the out-of-fold probability of the given label
by logistic regression.

`benchmarks/rates.py` measures the confidences before and after an audit.

    python -m benchmarks.audit [--repeats 1000] [--jobs 2] [--save record.json]
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import leave, machine, versions
from tnlpad.suspects.audit import DESIGNS, Sample, draw
from tnlpad.suspects.intervals import LEVEL, hypergeometric_limits, share_wrong

DATA = ("digits", "made")
RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
SIZES = (50, 100, 200)
TIMES_AS_OFTEN = {"random": 5}
MADE = {"n_samples": 10_000, "n_features": 20, "n_informative": 10, "n_classes": 10, "n_clusters_per_class": 1}
TRAINED = ("digits", "breast_cancer", "seven classes", "rare class", "overlapping")
CHECKS, BINS = 200, 10
MIN_SAMPLES = 400  # twice the checks
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """Data whose wrong labels are known."""

    given: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    confidence: Floats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000, help="samples for each row of the coverage")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [(name, share, options.repeats) for name, share in product(DATA, RATES)]
        coverage = [row for rows in pool.map(covered, *zip(*tasks, strict=True)) for row in told(rows)]
    least = min(row["coverage"] for row in coverage)
    print(f"least coverage: {least}")
    record = {"benchmark": "audit", "machine": machine("cpu"), "versions": versions(), "level": LEVEL}
    record |= {"repeats": options.repeats, "seconds": time.perf_counter() - began}
    leave(record | {"least_coverage": least, "coverage": coverage}, options.save)


def told(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        yield row


def covered(name: str, share: float, repeats: int) -> list[dict[str, Any]]:
    """Simulate audits of data with one share of wrong labels."""
    known = known_data(name, share)
    truth = float(known.wrong.mean())
    rows = []
    for by, size in product(DESIGNS, SIZES):
        limits, widths, cache = [], [], {}
        for seed in range(repeats * TIMES_AS_OFTEN.get(by, 1)):
            counts = counted(draw(size, known.given, known.confidence, by=by, seed=seed), known)
            key = b"".join(each.tobytes() for each in counts)
            if key not in cache:
                cache[key] = share_wrong(*counts)
            limits.append(cache[key].low <= truth <= cache[key].high)
            widths.append(cache[key].width)
        exact = {"exact_coverage": round(exact_coverage(known.wrong, size), 4)} if by == "random" else {}
        rows.append(
            {"data": name, "labels": len(known.given), "by": by, "rate": round(truth, 4), "size": size}
            | {"samples": len(limits)}
            | {"coverage": round(mean(limits), 4), "mean_width": round(mean(widths), 4)}
            | exact
        )
    return rows


def exact_coverage(wrong: NDArray[np.bool_], size: int) -> float:
    """Return the probability that the interval of a simple random sample holds the true share."""
    from scipy.stats import hypergeom

    results = range(size + 1)
    limits = [hypergeometric_limits(len(wrong), size, result) for result in results]
    held = [low <= wrong.mean() <= high for low, high in limits]
    return float(hypergeom.pmf(results, len(wrong), wrong.sum(), size) @ held)


def counted(sample: Sample, known: Known) -> tuple[NDArray[np.int64], ...]:
    """Return sizes, checked and wrong labels by stratum."""
    strata = sample.cell_strata[sample.cells]
    sizes = np.bincount(sample.cell_strata, weights=sample.cell_sizes).astype(np.int64)
    checked = np.bincount(strata, minlength=len(sizes))
    return sizes, checked, np.bincount(strata[known.wrong[sample.rows]], minlength=len(sizes))


def known_data(name: str, share: float) -> Known:
    """Move this share of the labels to other classes at random, and predict them out of fold."""
    from sklearn.datasets import load_digits, make_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    generator = np.random.default_rng(round(1000 * share))
    if name == "digits":
        features, clean = load_digits(return_X_y=True)
    else:
        shares = 0.75 ** np.arange(10)
        features, clean = make_classification(**MADE, weights=shares / shares.sum(), flip_y=0, random_state=0)
    wrong = np.zeros(len(clean), dtype=bool)
    wrong[generator.permutation(len(clean))[: round(share * len(clean))]] = True
    moved = (clean + generator.integers(1, 10, len(clean))) % 10
    given = np.where(wrong, moved, clean).astype(np.int64)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
    probabilities = cross_val_predict(model, features, given, method="predict_proba")
    return Known(given=given, wrong=wrong, confidence=1 - probabilities[np.arange(len(given)), given])


if __name__ == "__main__":
    main()
