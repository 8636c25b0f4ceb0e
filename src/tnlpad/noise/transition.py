"""Transition matrices: transition[i, j] = P(given label j | clean label i).

Symmetric and pairflip noise as in the paper and in Han et al., "Co-teaching". Asymmetric noise between similar classes
as in Patrini et al., "Making Deep Neural Networks Robust to Label Noise", with the classes that the paper names. In an
affected class, the share n of the labels becomes wrong: the class itself is never drawn as a wrong label.

The paper and its authors' code differ in three places; `protocol` chooses one:

- Fashion-MNIST: the paper turns sandals into sneakers; the code also turns sneakers into sandals.
- CIFAR-100: the paper uses super-classes; the code uses blocks of five consecutive class indices. Classes are numbered
  alphabetically, so the classes of a block (apple, aquarium fish, baby, bear, beaver) have nothing in common.
- CIFAR-10: the paper uses a matrix; the code flips one class after the other (`corrupt.flip_in_sequence`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.types import Labels, ProtocolName, Transition

PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

Flip = tuple[int, int]  # from one class to another

_SIMILAR_DIGITS: tuple[Flip, ...] = ((2, 7), (3, 8), (5, 6), (6, 5))
_SIMILAR_CLOTHES: tuple[Flip, ...] = ((0, 6), (2, 4), (5, 7))  # T-shirt → shirt, pullover → coat, sandal → sneaker
# Truck → automobile, bird → airplane, cat → dog, dog → cat, deer → horse. The order is that of the authors' code; it
# matters for `flips_in_sequence`.
CIFAR10_FLIPS: tuple[Flip, ...] = ((9, 1), (2, 0), (3, 5), (5, 3), (4, 7))

ASYMMETRIC_FLIPS: Mapping[str, Mapping[ProtocolName, tuple[Flip, ...]]] = {
    "mnist": {"paper": _SIMILAR_DIGITS, "authors": _SIMILAR_DIGITS},
    "digits": {"paper": _SIMILAR_DIGITS, "authors": _SIMILAR_DIGITS},  # not in the paper
    "fashion_mnist": {"paper": _SIMILAR_CLOTHES, "authors": (*_SIMILAR_CLOTHES, (7, 5))},
    "cifar10": {"paper": CIFAR10_FLIPS, "authors": CIFAR10_FLIPS},
}
MAX_ROUNDING_ERROR = 1e-3  # of the sum of a row of rounded numbers
CIFAR100_BLOCK = 5  # classes in a super-class, and in a block of the authors' code


def symmetric(noise_rate: float, num_classes: int) -> Transition:
    """Return 1 − n on the diagonal, n/(C − 1) elsewhere."""
    check_rate(noise_rate)
    check_num_classes(num_classes)
    transition = np.full((num_classes, num_classes), noise_rate / (num_classes - 1))
    np.fill_diagonal(transition, 1 - noise_rate)
    return transition


def pairflip(noise_rate: float, num_classes: int) -> Transition:
    """Return 1 − n on the diagonal, n for the next class; the first class follows the last."""
    check_num_classes(num_classes)
    return flips(noise_rate, num_classes, [(label, (label + 1) % num_classes) for label in range(num_classes)])


def flips(noise_rate: float, num_classes: int, pairs: Iterable[Flip]) -> Transition:
    """Return 1 − n and n for each pair (from, to); classes without a pair keep their labels."""
    check_rate(noise_rate)
    check_num_classes(num_classes)
    transition = np.eye(num_classes)
    seen = set()
    for source, target in pairs:
        if source == target or not (0 <= source < num_classes and 0 <= target < num_classes):
            raise ValueError(f"flip {source} -> {target}: must lead from one of {num_classes} classes to another.")
        if source in seen:
            raise ValueError(f"flip {source} -> {target}: class {source} can have only one target.")
        seen.add(source)
        transition[source, source] = 1 - noise_rate
        transition[source, target] = noise_rate
    return transition


def flips_in_sequence(noise_rate: float, num_classes: int, pairs: Iterable[Flip]) -> Transition:
    """Return the matrix of flips that are applied one after the other: the product of the single flips.

    With cat → dog before dog → cat, n of the cats become dogs, and n of those cats again: n(1 − n) stay wrong.
    """
    transition = np.eye(num_classes)
    for pair in pairs:
        transition = transition @ flips(noise_rate, num_classes, [pair])
    return transition


def within_groups(noise_rate: float, groups: Sequence[int] | NDArray[np.integer]) -> Transition:
    """Flip each class to the next one of its group by class index, and the last to the first.

    `groups[i]` is the group of class i. A class that is alone in its group keeps its labels.
    """
    group_of = np.asarray(groups)
    if group_of.ndim != 1 or not np.issubdtype(group_of.dtype, np.integer):
        raise ValueError(f"groups are {group_of.dtype} of shape {group_of.shape}: must be one integer per class.")
    pairs = []
    for group in np.unique(group_of):
        members = np.flatnonzero(group_of == group).tolist()
        if len(members) > 1:
            pairs += list(zip(members, [*members[1:], members[0]], strict=True))
    return flips(noise_rate, len(group_of), pairs)


def asymmetric(
    noise_rate: float,
    num_classes: int,
    dataset: str,
    protocol: ProtocolName = "paper",
    coarse: Sequence[int] | None = None,
) -> Transition:
    """Return noise between similar classes; `coarse[i]`, the super-class of class i, is needed for CIFAR-100 only."""
    check_protocol(protocol)
    if dataset == "cifar100":
        if protocol == "authors":
            return within_groups(noise_rate, np.arange(num_classes) // CIFAR100_BLOCK)
        if coarse is None or len(coarse) != num_classes:
            shown = None if coarse is None else f"{len(coarse)} super-classes"
            raise ValueError(
                f"coarse={shown}: asymmetric noise on CIFAR-100 needs the super-class of each of the {num_classes} "
                "classes, unless protocol='authors'."
            )
        return within_groups(noise_rate, coarse)
    if dataset not in ASYMMETRIC_FLIPS:
        known = ", ".join([*ASYMMETRIC_FLIPS, "cifar100"])
        raise ValueError(
            f"dataset={dataset!r}: asymmetric noise needs similar classes, which are known for {known} only. Use "
            "pairflip, or write a transition matrix to a file and use matrix:FILE."
        )
    return flips(noise_rate, num_classes, ASYMMETRIC_FLIPS[dataset][protocol])


def checked(transition: ArrayLike) -> Transition:
    """Return the matrix in double precision; raise ValueError unless every row is a probability distribution.

    Rows of rounded numbers, which sum to 1 within 0.001, are divided by their sum.
    """
    matrix = np.asarray(transition, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ValueError(
            f"transition has shape {matrix.shape}: must be square and at least 2x2, with one row per clean class and "
            "one column per given class."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        row, column = np.argwhere(~np.isfinite(matrix) | (matrix < 0))[0]
        raise ValueError(f"transition[{row}, {column}] = {matrix[row, column]}: must be finite and >= 0.")
    sums = matrix.sum(axis=1, keepdims=True)
    off = np.abs(sums - 1)
    if off.max() > MAX_ROUNDING_ERROR:
        row = int(off.argmax())
        raise ValueError(
            f"Row {row} of transition sums to {sums[row, 0]:.6g}: each row must sum to 1. "
            "If the columns do, pass the transposed matrix."
        )
    # Not if the sum is 1 up to floating point: dividing would change the last bits.
    return np.where(off > 1e-12, matrix / sums, matrix)


def transition_counts(clean: Labels, given: Labels, num_classes: int) -> NDArray[np.int64]:
    """Count the samples of clean class i with given label j."""
    clean, given = checked_labels(clean, num_classes), checked_labels(given, num_classes)
    if len(clean) != len(given):
        raise ValueError(f"{len(clean)} clean and {len(given)} given labels: the numbers must be equal.")
    return np.bincount(clean * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)


def empirical(clean: Labels, given: Labels, num_classes: int) -> Transition:
    """Return the observed transition matrix; a class without samples has no noise."""
    counts = transition_counts(clean, given, num_classes)
    samples = counts.sum(axis=1, keepdims=True)
    return np.where(samples > 0, counts / np.maximum(samples, 1), np.eye(num_classes))


def checked_labels(labels: ArrayLike, num_classes: int) -> Labels:
    """Return a copy of the labels as int64; raise ValueError unless all are class indices below `num_classes`."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"labels have shape {array.shape}: must be one-dimensional, one class index per sample.")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"labels are {array.dtype}: must be integers, class indices from 0.")
    outside = np.flatnonzero((array < 0) | (array >= num_classes))
    if outside.size:
        bad = int(outside[0])
        raise ValueError(
            f"labels[{bad}] = {array[bad]}: must lie in 0..{num_classes - 1} for {num_classes} classes. Number the "
            "classes from 0, or correct the number of classes."
        )
    return array.astype(np.int64)


def check_rate(noise_rate: float) -> None:
    """Raise ValueError unless the noise rate is a share."""
    if not 0 <= noise_rate <= 1:  # also catches NaN
        raise ValueError(f"noise_rate={noise_rate!r}: must lie in [0, 1], a share of the labels.")


def check_protocol(protocol: str) -> None:
    """Raise ValueError unless the protocol is known."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r}: must be one of {', '.join(PROTOCOLS)}.")


def check_num_classes(num_classes: int) -> None:
    """Raise ValueError for fewer than two classes."""
    if num_classes < 2:
        raise ValueError(f"num_classes={num_classes!r}: label noise needs at least 2 classes.")
