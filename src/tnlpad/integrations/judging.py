"""Suspect labels from the predictions of a network for the samples that it is trained on.

After each epoch the network predicts every training sample, with σ as its weights, unaugmented if the dataset is. The
mean of the probabilities over the epochs so far puts wrong labels before right ones, since they are learnt late. How
late differs between networks, so there is no rate and no confidence: a network that learns every label soon contradicts
few wrong ones. `benchmarks/predictions.py` compares the order with that of out-of-fold predictions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tnlpad.records.samples import SampleNames
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.listing import Suspect, suspects
from tnlpad.suspects.ranking import rank
from tnlpad.training.measure import evaluation_mode

BATCH = 32  # where the loader of the training samples has no batch size
TRAINED_ON = (
    "The network was trained on these labels, so the number of wrong ones cannot be estimated. The order of the list "
    "may still help."
)
Predict = Callable[[Any], tuple[Tensor, Tensor]]


class TrainedLabels:
    """Mean probabilities of the training samples over the epochs, in the order of the dataset."""

    def __init__(self) -> None:
        self.epochs = 0
        self.labels = torch.empty(0, dtype=torch.int64)
        self.probabilities, self.agreed = torch.empty(0), torch.empty(0)  # sums over the epochs

    @torch.no_grad()
    def add_epoch(self, network: nn.Module, batches: Iterable[Any], predict: Predict) -> None:
        """Add predictions of the network; `predict` returns the logits and the given labels of a batch."""
        with evaluation_mode(network):
            pairs = [_checked(*predict(batch)) for batch in batches]
        labels = torch.cat([given for _, given in pairs])
        probabilities = torch.cat([logits for logits, _ in pairs]).softmax(1)
        agreed = (probabilities.argmax(1) == labels).float()
        if self.epochs == 0:
            self.labels, self.probabilities, self.agreed = labels, probabilities, agreed
        elif torch.equal(labels, self.labels):
            self.probabilities += probabilities
            self.agreed += agreed
        else:
            raise RuntimeError(
                "The labels of the training samples have changed since the last epoch. Keep their order."
            )
        self.epochs += 1

    def scores(self, class_names: Sequence[str] | None = None) -> SampleScores:
        """Return the mean probabilities, and how often the given label was predicted."""
        if self.epochs == 0:
            raise RuntimeError("There are no suspects yet. The samples are judged at the end of each epoch.")
        count, classes = self.probabilities.shape
        return SampleScores(
            columns={
                "index": np.arange(count),
                "part": np.full(count, "train", dtype=object),
                "given": self.labels.numpy(),
                "agreed_sigma": (self.agreed / self.epochs).numpy(),
            },
            probabilities=(self.probabilities / self.epochs).numpy(),
            class_names=tuple(class_names or map(str, range(classes))),
            views=("sigma",),
            facts={"epochs_until_chosen": self.epochs},
        )

    def suspects(self, class_names: Sequence[str] | None = None) -> list[Suspect]:
        """List the labels that the mean prediction contradicts, the most suspicious first."""
        scores = self.scores(class_names)
        names = SampleNames(ids=[str(row) for row in range(len(scores))], paths=[None] * len(scores))
        ranking = rank(scores).without_estimates(TRAINED_ON)
        contradicted = ranking.evidence.suggested_probability > ranking.evidence.given_probability
        listed = (each for each in suspects(ranking, scores, names, len(scores)) if contradicted[each.index])
        return [replace(each, rank=number) for number, each in enumerate(listed, start=1)]


def in_order(loader: Any, batch_size: int | None = None) -> DataLoader[Any]:
    """Return a loader of the same samples in their order; training with and without it draws the same numbers.

    Args:
        loader: The loader of the training samples.
        batch_size: Size of the batches (default: that of the loader).

    Raises:
        RuntimeError: The samples have no order.
    """
    dataset: Any = getattr(loader, "dataset", None)
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise RuntimeError(
            f"judge=True needs training samples with a length and indices, not those of a {type(loader).__name__}. Use "
            "a DataLoader of such a dataset, or leave judge out."
        )
    whole = loader.batch_size is None and loader.batch_sampler is None  # the dataset holds batches
    return DataLoader(
        dataset,
        batch_size=None if whole else batch_size or loader.batch_size or BATCH,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        generator=torch.Generator(),
    )


def _checked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    logits, labels = logits.detach().float().cpu(), labels.detach().cpu()
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or labels.is_floating_point():
        raise RuntimeError(
            "judge=True needs logits of samples × classes and a class for each sample, but the logits of a batch have "
            f"the shape {tuple(logits.shape)}, its labels {tuple(labels.shape)} and {labels.dtype}. Leave judge out."
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise RuntimeError(
            f"Labels range from {int(labels.min())} to {int(labels.max())}, but there are {logits.shape[1]} logits. "
            "Leave judge out, or give each sample a class."
        )
    return logits, labels.long()
