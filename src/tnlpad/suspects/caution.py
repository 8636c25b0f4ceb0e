"""When the numbers of a list should not be believed: the network hardly knows labels that it never saw.

How often it gives held-out samples their label says little by itself: the most frequent label alone is right for nine
tenths of some data. What counts is the gain, how far it closes the gap between that and always being right. The least
gain was chosen with seeds 1 and 2 on small images and tables, with wrong labels of two kinds and rates from none to a
half: below it estimates were far off and corrections often wrong, above it both were good, and on numbers without any
meaning the gain stayed below. `benchmarks/noise_rates.py` has the numbers of other seeds.

And of a few held-out samples the gain says nothing: one alone is always of the most frequent label.
"""

import numpy as np

from tnlpad.records.scores import SampleScores
from tnlpad.records.store import RunFolder

LEAST_GAIN = 0.3  # of the way from the most frequent label to all labels
FEWEST_HELD_OUT = 10


def caution(agreement: float | None, usual: float) -> str | None:
    """A warning in words; None where there is nothing to warn of.

    Args:
        agreement: The accuracy on held-out labels as given.
        usual: What always giving the most frequent of those labels would reach.
    """
    if agreement is None or agreement - usual >= LEAST_GAIN * (1 - usual):
        return None
    return (
        f"The network gives only {100 * agreement:.0f} % of the held-out samples the label that they carry, and always "
        f"giving the most frequent one would be right for {100 * usual:.0f} %: it is too weak for these data, or too "
        "many labels are wrong. So it cannot be told how many are. The order of the list may still help. More samples, "
        "larger images or pretrained weights make a stronger network."
    )


def caution_of_few(held_out: int) -> str | None:
    """The same where too few samples were held out to know whether it is needed."""
    if held_out >= FEWEST_HELD_OUT:
        return None
    return (
        f"Only {held_out} samples were held out, and it takes {FEWEST_HELD_OUT} or more to tell whether the network "
        "knows labels that it never saw. So it cannot be told how many are wrong. The order of the list may still "
        "help. Add samples, or hold out more of them with --set validation_fraction=…"
    )


def caution_of_run(folder: RunFolder, scores: SampleScores) -> str | None:
    """Either of them about a finished run; one without samples held out chose its epoch on others, of clean labels."""
    held_out = np.asarray(scores.columns["given"])[np.asarray(scores.columns["part"]) == "validation"]
    agreement = (folder.summary().get("chosen") or {}).get("validation_accuracy")
    if not len(held_out):
        return caution(agreement, 0.0)
    usual = float(np.unique(held_out, return_counts=True)[1].max() / len(held_out))
    return caution_of_few(len(held_out)) or caution(agreement, usual)
