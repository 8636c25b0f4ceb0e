"""Transition matrices: transition[i, j] = P(given label j | clean label i).

Symmetric and pairflip noise as in the paper and in Han et al., "Co-teaching"; asymmetric noise between similar classes
as in Patrini et al., "Making Deep Neural Networks Robust to Label Noise", with the classes that the paper names. In all
of them a class that is affected has the share n of its labels wrong: the own class is never drawn again.

The paper and its authors' code disagree in three places, told apart by `protocol`:

- Fashion-MNIST: the paper turns sandals into sneakers, the code also sneakers into sandals.
- CIFAR-100: the paper names the super-classes, the code takes blocks of five consecutive class indices. The classes are
  numbered alphabetically, so a block (apple, aquarium fish, baby, bear, beaver) has nothing in common.
- CIFAR-10: the paper's matrix; the code's flips one class after the other are `corrupt.flip_in_sequence`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.noise.labels import checked_labels
from tnlpad.types import Labels, Transition

ProtocolName = Literal["paper", "authors"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

Flip = tuple[int, int]  # from a class to another

_SIMILAR_DIGITS: tuple[Flip, ...] = ((2, 7), (3, 8), (5, 6), (6, 5))
_SIMILAR_CLOTHES: tuple[Flip, ...] = ((0, 6), (2, 4), (5, 7))  # T-shirt → shirt, pullover → coat, sandal → sneaker
# Truck → automobile, bird → airplane, cat → dog, dog → cat, deer → horse: in the order of the authors' code, which
# matters where one flip is made after the other.
CIFAR10_FLIPS: tuple[Flip, ...] = ((9, 1), (2, 0), (3, 5), (5, 3), (4, 7))

ASYMMETRIC_FLIPS: Mapping[str, Mapping[ProtocolName, tuple[Flip, ...]]] = {
    "mnist": {"paper": _SIMILAR_DIGITS, "authors": _SIMILAR_DIGITS},
    "digits": {"paper": _SIMILAR_DIGITS, "authors": _SIMILAR_DIGITS},  # not in the paper; they are the same ten digits
    "fashion_mnist": {"paper": _SIMILAR_CLOTHES, "authors": (*_SIMILAR_CLOTHES, (7, 5))},
    "cifar10": {"paper": CIFAR10_FLIPS, "authors": CIFAR10_FLIPS},
}
ROUNDED = 1e-3  # by how much a row of rounded numbers may miss 1
CIFAR100_BLOCK = 5  # classes in a super-class, and in a block of the authors' code


def symmetric(noise_rate: float, num_classes: int) -> Transition:
    """1 − n on the diagonal, n/(C − 1) elsewhere."""
    check_rate(noise_rate)
    check_num_classes(num_classes)
    transition = np.full((num_classes, num_classes), noise_rate / (num_classes - 1))
    np.fill_diagonal(transition, 1 - noise_rate)
    return transition


def pairflip(noise_rate: float, num_classes: int) -> Transition:
    """1 − n on the diagonal, n for the next class; the last class goes to the first."""
    check_num_classes(num_classes)
    return flips(noise_rate, num_classes, [(label, (label + 1) % num_classes) for label in range(num_classes)])


def flips(noise_rate: float, num_classes: int, pairs: Iterable[Flip]) -> Transition:
    """1 − n and n for each pair (from, to); classes without a pair keep their labels."""
    check_rate(noise_rate)
    check_num_classes(num_classes)
    transition = np.eye(num_classes)
    seen = set()
    for source, target in pairs:
        if source == target or not (0 <= source < num_classes and 0 <= target < num_classes):
            raise ValueError(f"flip {source} -> {target}: must lead from one of {num_classes} classes to another one.")
        if source in seen:
            raise ValueError(f"flip {source} -> {target}: class {source} has a target already, and can have only one.")
        seen.add(source)
        transition[source, source] = 1 - noise_rate
        transition[source, target] = noise_rate
    return transition


def flips_in_sequence(noise_rate: float, num_classes: int, pairs: Iterable[Flip]) -> Transition:
    """The same when each flip takes from whoever then carries the label: a product of steps, not a sum.

    With cat → dog before dog → cat, n of the cats turn into dogs and n of those back again: n(1 − n) stay wrong.
    """
    transition = np.eye(num_classes)
    for pair in pairs:
        transition = transition @ flips(noise_rate, num_classes, [pair])
    return transition


def within_groups(noise_rate: float, groups: Sequence[int] | NDArray[np.integer]) -> Transition:
    """Each class to the next one of its group, in the order of class indices; the last to the first.

    `groups[i]` is the group of class i. A class alone in its group keeps its labels.
    """
    group_of = np.asarray(groups)
    if group_of.ndim != 1 or not np.issubdtype(group_of.dtype, np.integer):
        raise ValueError(f"groups are {group_of.dtype} of shape {group_of.shape}: must be one whole number per class.")
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
    """Noise between similar classes of this dataset; `coarse[i]`, the super-class of class i, is for CIFAR-100."""
    check_protocol(protocol)
    if dataset == "cifar100":
        if protocol == "authors":
            return within_groups(noise_rate, np.arange(num_classes) // CIFAR100_BLOCK)
        if coarse is None or len(coarse) != num_classes:
            shown = None if coarse is None else f"{len(coarse)} super-classes"
            raise ValueError(
                f"coarse={shown}: asymmetric noise on CIFAR-100 goes from class to class within a super-class, so the "
                f"super-class of each of the {num_classes} classes must be given. protocol='authors' needs none."
            )
        return within_groups(noise_rate, coarse)
    if dataset not in ASYMMETRIC_FLIPS:
        known = ", ".join([*ASYMMETRIC_FLIPS, "cifar100"])
        raise ValueError(
            f"dataset={dataset!r}: asymmetric noise needs to know which classes are similar, and knows it for {known}. "
            "Use pairflip, or write the matrix that you mean into a file and use matrix:FILE."
        )
    return flips(noise_rate, num_classes, ASYMMETRIC_FLIPS[dataset][protocol])


def checked(transition: ArrayLike) -> Transition:
    """The matrix in double precision, refused unless every row is a probability distribution.

    Rows that sum to 1 up to a thousandth, as numbers of a few digits do, are divided by their sum.
    """
    matrix = np.asarray(transition, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ValueError(
            f"transition has shape {matrix.shape}: must be square, one row per clean class and one column per given "
            "class, at least 2x2."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        row, column = np.argwhere(~np.isfinite(matrix) | (matrix < 0))[0]
        raise ValueError(
            f"transition[{row}, {column}] = {matrix[row, column]}: must be a probability, a finite number >= 0."
        )
    sums = matrix.sum(axis=1, keepdims=True)
    off = np.abs(sums - 1)
    if off.max() > ROUNDED:
        row = int(off.argmax())
        raise ValueError(
            f"Row {row} of transition sums to {sums[row, 0]:.6g}: each row must sum to 1. "
            "If its columns do, the matrix is the wrong way round: pass its transpose."
        )
    # Sums that are 1 up to rounding are left alone: dividing would change the last bits of what the caller wrote.
    return np.where(off > 1e-12, matrix / sums, matrix)


def transition_counts(clean: Labels, given: Labels, num_classes: int) -> NDArray[np.int64]:
    """How many samples of clean class i carry label j."""
    clean, given = checked_labels(clean, num_classes), checked_labels(given, num_classes)
    if len(clean) != len(given):
        raise ValueError(f"{len(clean)} clean and {len(given)} given labels: must be as many of each.")
    return np.bincount(clean * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)


def empirical(clean: Labels, given: Labels, num_classes: int) -> Transition:
    """The shares in which labels were seen to change; a class without samples has, as far as is known, no noise."""
    counts = transition_counts(clean, given, num_classes)
    samples = counts.sum(axis=1, keepdims=True)
    return np.where(samples > 0, counts / np.maximum(samples, 1), np.eye(num_classes))


def check_rate(noise_rate: float) -> None:
    """Refuse what is no share."""
    if not 0 <= noise_rate <= 1:  # also catches NaN
        raise ValueError(f"noise_rate={noise_rate!r}: must lie in [0, 1], the share of labels to make wrong.")


def check_protocol(protocol: str) -> None:
    """Refuse what is neither of the two."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r}: must be one of {', '.join(PROTOCOLS)}.")


def check_num_classes(num_classes: int) -> None:
    """Refuse a number of classes between which nothing can be confused."""
    if num_classes < 2:
        raise ValueError(f"num_classes={num_classes!r}: a label can only be wrong if there are at least 2 classes.")
