"""Estimate the share of random label errors from out-of-fold probabilities, by maximum likelihood.

Let p be the probabilities of a sample's classes by networks that were not trained on its label y, and K the number of
classes. Such networks are too sure or not sure enough, so the probabilities of the true class are taken to be
q ∝ p^τ with an unknown temperature exponent τ. A share π of the labels is replaced by another label, each equally
likely. Then

    P(y) = (1 − π) q_y + π (1 − q_y) / (K − 1),

and π and τ maximise the sum of the logarithms. `evidence.py` computes the odds that a label is wrong from q and π, by
Bayes' rule, with the labels that a class is taken for as `estimate.py` counts them.

The interval has all π whose profile likelihood is close to the maximum. It is wider than chance alone would make it,
since q ∝ p^τ is an approximation: `LIKELIHOOD_DROP` and `MODEL_ERROR` were chosen with seeds 1 and 2 of
`benchmarks/rates.py`, which has the results of other seeds.

The likelihood cannot tell errors that follow the classes, such as many cats labelled as dogs, from classes that look
alike: with τ = 1 and π = 0, such labels are as likely as they can be. Only checked labels can tell.

A network that knows little has little to say about π. Its information is 1 − H(q) / H(q̄), where H(q) is the mean
entropy and q̄ the mean of q. It is 0 if the network predicts the same for every sample, and 1 if it is always sure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.memory import row_slices
from tnlpad.records.scores import SampleScores
from tnlpad.types import Index, Labels

Floats = NDArray[np.float64]
TEMPERATURES = np.geomspace(0.25, 32.0, 57)
RATES: Floats = np.concatenate([[0.0], np.linspace(0.0025, 0.9, 360)])
MAX_FITTED = 20_000
SMOOTHING = 1e-4  # probability that is added over all classes: a mean of float32 values may be 0
LOG_ODDS = np.linspace(-14.0, 14.0, 561)  # bins of the log odds of the given label
MAX_LOG_ODDS = 13.9
LIKELIHOOD_DROP = 2.7  # of the profile log-likelihood; 1.92 would be a 95 % interval of an exact model
MODEL_ERROR = 0.015
MIN_INFORMATION = 0.33  # below it, estimates were up to 11 points off
MAX_WIDTH = 0.3  # of an interval that still says something


@dataclass(frozen=True, kw_only=True)
class RandomErrors:
    """The fitted model.

    Args:
        rate, interval: The share π of labels that were replaced at random.
        temperature: The exponent τ.
        information: 1 − H(q) / H(q̄).
        open_classes: Number of classes that a prediction leaves open on average: the exponential of H(q).
    """

    rate: float
    interval: tuple[float, float]
    temperature: float
    information: float
    open_classes: float

    @property
    def too_weak(self) -> bool:
        """Whether the networks know too little for an estimate."""
        return self.information < MIN_INFORMATION or self.interval[1] - self.interval[0] > MAX_WIDTH


def is_out_of_fold(scores: SampleScores) -> bool:
    """Whether every sample was judged by networks that were not trained on its label."""
    return bool(scores.facts.get("folds"))


def fit_random_errors(scores: SampleScores, rows: Index | None = None) -> RandomErrors:
    """Fit the model to these samples, by default to all; of many samples, a random part is used."""
    rows = np.arange(len(scores)) if rows is None else rows
    if len(rows) > MAX_FITTED:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_FITTED, replace=False))
    classes = len(scores.class_names)
    if classes < 2 or len(rows) == 0:
        return RandomErrors(rate=0.0, interval=(0.0, 1.0), temperature=1.0, information=0.0, open_classes=classes)
    given = np.asarray(scores.columns["given"], dtype=np.int64)
    counts = np.zeros((len(TEMPERATURES), len(LOG_ODDS) - 1))
    entropy, total = np.zeros(len(TEMPERATURES)), np.zeros((len(TEMPERATURES), classes))
    for part in row_slices(len(rows), classes):
        chosen = rows[part]
        logs = log_probabilities(scores.probabilities[chosen])
        for number, temperature in enumerate(TEMPERATURES):
            sharp = sharpened(logs, temperature)
            right = np.clip(sharp[np.arange(len(chosen)), given[chosen]], 1e-9, 1 - 1e-9)
            odds = np.clip(np.log(right) - np.log1p(-right), -MAX_LOG_ODDS, MAX_LOG_ODDS)
            counts[number] += np.histogram(odds, LOG_ODDS)[0]
            entropy[number] += float(_entropy(sharp).sum())
            total[number] += sharp.sum(0)
    middle = 1 / (1 + np.exp(-(LOG_ODDS[1:] + LOG_ODDS[:-1]) / 2))[:, None]
    likelihood = counts @ np.log((1 - RATES) * middle + RATES * (1 - middle) / (classes - 1))
    best, place = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    profile = likelihood.max(0)
    near = RATES[profile >= profile.max() - LIKELIHOOD_DROP]
    unsure, overall = float(entropy[best] / len(rows)), float(_entropy(total[best] / len(rows)))
    return RandomErrors(
        rate=float(RATES[place]),
        interval=(max(0.0, float(near.min()) - MODEL_ERROR), min(1.0, float(near.max()) + MODEL_ERROR)),
        temperature=float(TEMPERATURES[best]),
        information=max(0.0, 1 - unsure / overall) if overall > 1e-9 else 0.0,
        open_classes=float(np.exp(unsure)),
    )


def _entropy(probabilities: Floats) -> Floats:
    result: Floats = -(probabilities * np.log(probabilities + 1e-12)).sum(-1)
    return result


def log_probabilities(rows: NDArray[np.float32]) -> Floats:
    """Return logarithms of probabilities, none of them infinite."""
    result: Floats = np.log(np.asarray(rows, dtype=np.float64) + SMOOTHING / rows.shape[1])
    return result


def sharpened(logs: Floats, temperature: float) -> Floats:
    """Return q ∝ p^τ from the logarithms of p."""
    powers = temperature * logs
    powers -= powers.max(1, keepdims=True)
    np.exp(powers, out=powers)
    powers /= powers.sum(1, keepdims=True)
    return powers


def sharpened_rows(scores: SampleScores, temperature: float) -> Iterator[tuple[Floats, Labels]]:
    """Iterate over q and the given labels, a few rows at a time."""
    given = np.asarray(scores.columns["given"], dtype=np.int64)
    for part in row_slices(len(given), len(scores.class_names)):
        yield sharpened(log_probabilities(scores.probabilities[part]), temperature), given[part]
