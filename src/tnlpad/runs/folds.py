"""Cross-fitting: several networks, each trained without one fold of the samples, so that none judges what it learnt.

The samples are divided into folds, several times in different ways (repeats). For each fold of each repeat, one network
is trained on all other folds. A sample is judged by the networks that were not trained on its fold, one per repeat. The
network that ships averages the probabilities of all: every sample was learnt by most of them.

All networks are trained in step, so that the loop, its records and its checkpoints are those of any other method. The
accuracy on out-of-fold samples, by their given labels, chooses the epoch.

Samples that are duplicates, or of one group, stay in one fold. Samples of a validation part, in fold −1, are not
trained on.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.data.own.near_duplicates import connected, paired_by_value
from tnlpad.methods import Method
from tnlpad.methods.protocol import Judged, chosen_by, phase_of
from tnlpad.types import Batch, Clock, Index, Labels

NOT_TRAINED = -1  # fold of the samples that no network is trained on
MAX_COMPARED = 20_000  # samples that are searched for near duplicates, which takes time quadratic in their number
MIN_COLUMNS_COMPARED = 32  # in fewer dimensions, different samples are often close to each other
NEAR_DUPLICATE = 0.99  # cosine of two centred rows of features
MAX_COPIES = 10  # of a sample, on average
ROWS_AT_ONCE = 1024


class HeldOut(NamedTuple):
    """Samples to judge by the networks that were not trained on them.

    Args:
        features: A row for each sample.
        fold: Repeats × samples: the fold of each sample, or `NOT_TRAINED`.
    """

    features: Tensor
    fold: Tensor


class Ensemble(nn.ModuleList):
    """The networks of all folds, repeat by repeat; returns the logarithm of their mean probabilities as logits."""

    def __init__(self, networks: Sequence[nn.Module], folds: int) -> None:
        super().__init__(networks)
        self.folds = folds

    def forward(self, inputs: Tensor | HeldOut) -> Tensor:
        if isinstance(inputs, HeldOut):
            return self._out_of_fold(inputs)
        probabilities = torch.stack([network(inputs).softmax(1) for network in self])
        return _logits(probabilities.mean(0))

    def _out_of_fold(self, inputs: HeldOut) -> Tensor:
        total: Tensor | None = None
        counts = torch.zeros(len(inputs.features), 1, device=inputs.features.device)
        for number, network in enumerate(self):
            repeat, fold = divmod(number, self.folds)
            fold_of = inputs.fold[repeat]
            rows = torch.nonzero((fold_of == fold) | (fold_of == NOT_TRAINED)).squeeze(1)
            if len(rows) == 0:
                continue
            probabilities = network(inputs.features[rows]).float().softmax(1)
            if total is None:
                total = probabilities.new_zeros(len(inputs.features), probabilities.shape[1])
            total.index_add_(0, rows, probabilities)
            counts.index_add_(0, rows, torch.ones_like(probabilities[:, :1]))
        assert total is not None, "every sample belongs to a fold"
        return _logits(total / counts)


def _logits(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(torch.float32).tiny).log()


class CrossFitted:
    """Trains one method per fold and repeat, each on the samples of the other folds.

    Args:
        members: The methods, repeat by repeat, each with networks of its own.
        fold: Repeats × samples of the dataset: the fold of each sample.
        folds: Number of folds.
    """

    def __init__(self, members: Sequence[Method], fold: Tensor, folds: int) -> None:
        self.members, self.fold, self.folds = members, fold, folds
        self.reported: Sequence[str] = members[0].reported
        self.chosen_by: Sequence[str] = chosen_by(members[0])

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        return [optimizer for member in self.members for optimizer in member.optimizers]

    @property
    def judged(self) -> Judged:
        return {name: partial(self._judged, name) for name in self.members[0].judged}

    @property
    def selections(self) -> Mapping[str, Tensor]:
        return {}

    @property
    def phase(self) -> Hashable:
        return phase_of(self.members[0])

    def begin_epoch(self, clock: Clock) -> None:
        for member in self.members:
            member.begin_epoch(clock)

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        losses = []
        for number, member in enumerate(self.members):
            repeat, fold = divmod(number, self.folds)
            fold_of = self.fold[repeat, batch.index]
            rows = (fold_of != fold) & (fold_of != NOT_TRAINED)
            if rows.any():
                part = Batch(index=batch.index[rows], images=batch.images[rows], labels=batch.labels[rows])
                losses.append(member.step(part, clock))
        return torch.stack(losses).mean()

    def state_dict(self) -> dict[str, Any]:
        return {"members": [member.state_dict() for member in self.members]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state.get("members", ())) != len(self.members):
            raise ValueError(f"The state is not one of {len(self.members)} cross-fitted networks.")
        for member, saved in zip(self.members, state["members"], strict=True):
            member.load_state_dict(saved)

    @contextmanager
    def _judged(self, name: str) -> Iterator[nn.Module]:
        with ExitStack() as stack:
            contexts: list[AbstractContextManager[nn.Module]] = [member.judged[name]() for member in self.members]
            yield Ensemble([stack.enter_context(each) for each in contexts], self.folds)


def held_out_rows(features: Tensor, fold: Tensor) -> Callable[[Tensor], Any]:
    """Return a function from indices of the dataset to samples that are judged out of fold."""

    def rows(index: Tensor) -> HeldOut:
        return HeldOut(features[index], fold[:, index])

    return rows


# Division -------------------------------------------------------------------------------------------------------------


def divide(
    labels: Labels, folds: int, repeats: int, generator: np.random.Generator, together: Index | None = None
) -> NDArray[np.int64]:
    """Return the fold of each sample in each repeat, with about equal shares of every class in each fold.

    Args:
        labels: Given labels.
        folds: Number of folds.
        repeats: Number of divisions.
        generator: Random generator.
        together: Number of the group of each sample; a group stays in one fold (default: none belong together).
    """
    together = np.arange(len(labels)) if together is None else together
    _, first, group = np.unique(together, return_index=True, return_inverse=True)
    sizes = np.bincount(group)
    if len(sizes) < folds:
        raise ValueError(
            f"folds={folds}: the samples form only {len(sizes)} groups, and a group stays in one fold. Use fewer folds."
        )
    return np.stack([_deal(labels[first], sizes, folds, generator)[group] for _ in range(repeats)])


def _deal(labels: Labels, sizes: Index, folds: int, generator: np.random.Generator) -> Index:
    """Return the fold of each group: groups of a class go to the folds in turn, large ones to the smallest fold."""
    order = generator.permutation(len(labels))
    order = order[np.lexsort((-sizes[order], labels[order]))]  # stable: random among groups of the same size
    if (sizes == 1).all():
        fold = np.empty(len(labels), dtype=np.int64)
        fold[order] = np.arange(len(labels)) % folds
        return fold
    fold, filled = np.empty(len(labels), dtype=np.int64), np.zeros(folds, dtype=np.int64)
    in_class: dict[int, NDArray[np.int64]] = {}
    for group in order.tolist():
        of_class = in_class.setdefault(int(labels[group]), np.zeros(folds, dtype=np.int64))
        chosen = int(np.lexsort((filled, of_class))[0])
        fold[group] = chosen
        filled[chosen] += sizes[group]
        of_class[chosen] += sizes[group]
    return fold


def belonging_together(
    features: NDArray[np.float32], digests: Sequence[bytes], groups: Sequence[str] | None = None
) -> Index:
    """Number the samples so that exact and near duplicates, and samples of one group, have the same number.

    Near duplicates are searched only among at most `MAX_COMPARED` samples with `MIN_COLUMNS_COMPARED` features or more.
    Where most samples are equal, as in a table of a few categories, they are no copies of each other.
    """
    count = len(features)
    copies = [paired_by_value(digests)]
    if count <= MAX_COMPARED and features.shape[1] >= MIN_COLUMNS_COMPARED:
        copies.append(_near(features))
    if len(np.unique(connected(copies, count))) * MAX_COPIES < count:
        copies = [paired_by_value(range(count))]
    return connected(copies if groups is None else [*copies, paired_by_value(groups)], count)


def _near(features: NDArray[np.float32]) -> NDArray[np.int64]:
    centred = features - features.mean(0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    found = []
    for start in range(0, len(centred), ROWS_AT_ONCE):
        left, right = np.nonzero(centred[start : start + ROWS_AT_ONCE] @ centred[start:].T >= NEAR_DUPLICATE)
        found.append(np.stack([left, right]) + start)
    return np.concatenate(found, axis=1).astype(np.int64)
