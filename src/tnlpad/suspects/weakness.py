"""Reasons to give no estimate: the networks know too little, or the errors are not random.

A network that is too weak contradicts right labels as often as wrong ones. Then there is no rate, no label is called
probably wrong, and only the order of the samples has a meaning. How much a network knows is measured on samples that it
was not trained on. `benchmarks/rates.py` shows what remains with estimates, and how far it is off.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tnlpad.records.scores import SampleScores
from tnlpad.suspects.estimate import Estimate
from tnlpad.suspects.random_errors import RandomErrors, fit_random_errors, is_out_of_fold
from tnlpad.types import Index

# Share of the gap between always predicting the most frequent label and being always right. It was chosen with seeds 1
# and 2 on small images and tables: below it, estimates were far off and corrections often wrong, and random data stayed
# below it. `benchmarks/noise_rates.py` has the numbers of other seeds.
MIN_GAIN = 0.3
MIN_HELD_OUT = 10  # fewer samples say nothing about the gain
# Limits for one training with held-out samples: the mean number of classes that its predictions leave open (the
# exponential of their entropy) as a power of the number of all classes, which is never below two, and the width of the
# interval. Beyond them, estimates were 10 points off and more. Chosen with seed 1 on small images and photographs.
MAX_OPEN_POWER, MIN_OPEN = 0.5, 2.0
MAX_WIDTH = 0.5
# How far the share of contradicted labels among the clearest samples may exceed the rate of random errors. Chosen on
# seeds 1 to 4 of data as in `benchmarks/rates.py`: random errors stayed below 0.06, most other errors above 0.1.
MAX_MORE_CONTRADICTED = 0.08
WITHOUT_ESTIMATES = (
    "So the number of wrong labels cannot be estimated. The order of the list may still help. More samples, larger "
    "images, a pretrained network or other features make stronger predictions."
)


def out_of_fold_weakness(errors: RandomErrors, samples: int) -> str | None:
    """Return why the networks of all folds know too little, or None."""
    if not errors.too_weak:
        return None
    return (
        f"The networks know too little about these {samples:,} samples: their predictions for samples that they were "
        f"not trained on hold {100 * errors.information:.0f} % of what certain ones would. {WITHOUT_ESTIMATES}"
    )


def systematic_errors(errors: RandomErrors, contradicted: int, clearest: int) -> str | None:
    """Return why errors seem to follow the classes, or None.

    Args:
        errors: The fitted model of random errors.
        contradicted, clearest: How many labels of the clearest samples are contradicted, of how many.
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped, unused-ignore]

    least = float(betaincinv(contradicted, clearest - contradicted + 1, 0.025)) if contradicted else 0.0
    if least <= errors.interval[1] + MAX_MORE_CONTRADICTED:
        return None
    return (
        f"Where the networks are surest, they contradict {100 * contradicted / clearest:.0f} % of the labels, but "
        f"random errors alone would explain at most {100 * errors.interval[1]:.0f} %. So some classes are often "
        "labelled as others or look alike, or a cleaning left the errors that are hard to find. The data cannot tell "
        "which, so the number of wrong labels cannot be estimated. The order of the list may still help. Check a "
        "random sample, as `tnlpad audit` draws it."
    )


def held_out_weakness(scores: SampleScores, held_out: Index, estimated: Estimate) -> str | None:
    """Return why one training knows too little about its held-out samples, or None."""
    if len(held_out) < MIN_HELD_OUT:
        return None  # see `caution`
    classes = len(scores.class_names)
    open_classes = fit_random_errors(scores, held_out).open_classes
    low, high = estimated.noise_rate_interval
    # Rounding must not decide about two classes, between which nothing but the width can.
    if open_classes > max(MIN_OPEN, classes**MAX_OPEN_POWER) + 1e-6:
        return (
            f"The network knows too little: its predictions for the held-out samples leave {open_classes:.1f} of "
            f"{classes} classes open on average. {WITHOUT_ESTIMATES}"
        )
    if high - low > MAX_WIDTH:
        return (
            f"The {len(held_out):,} held-out samples leave anything from {100 * low:.0f} to {100 * high:.0f} % of "
            f"wrong labels possible. {WITHOUT_ESTIMATES}"
        )
    return None


def caution(summary: Mapping[str, Any], scores: SampleScores) -> str | None:
    """Return why a run has no estimates, as far as its accuracy and its number of held-out samples say; or None.

    The accuracy on held-out labels alone says little, since the most frequent label may be right for nine tenths of the
    data. The gain over it counts: see `MIN_GAIN`.
    """
    if is_out_of_fold(scores):
        return None  # `out_of_fold_weakness` measures what the networks know about all samples
    held_out = np.asarray(scores.columns["given"])[np.asarray(scores.columns["part"]) == "validation"]
    accuracy = (summary.get("chosen") or {}).get("validation_accuracy")
    if 0 < len(held_out) < MIN_HELD_OUT:
        return (
            f"Only {len(held_out)} samples were held out. It takes {MIN_HELD_OUT} or more to tell whether the network "
            "is good enough to estimate how many labels are wrong. The order of the list may still help. Add samples, "
            "or hold out more of them with --set validation_fraction=…"
        )
    # Without held-out samples, the epoch was chosen on clean labels of other samples.
    frequent = float(np.unique(held_out, return_counts=True)[1].max() / len(held_out)) if len(held_out) else 0.0
    if accuracy is None or accuracy - frequent >= MIN_GAIN * (1 - frequent):
        return None
    return (
        f"The network predicts the given label for only {100 * accuracy:.0f} % of the held-out samples; always "
        f"predicting the most frequent label would be right for {100 * frequent:.0f} %. It is too weak for these data, "
        "or too many labels are wrong, so their number cannot be estimated. The order of the list may still help. More "
        "samples, larger images or pretrained weights make a stronger network."
    )
