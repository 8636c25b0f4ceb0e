"""A scikit-learn classifier for data whose labels are partly wrong.

>>> from sklearn.datasets import load_iris
>>> from sklearn.model_selection import cross_val_score
>>> from tnlpad.integrations.sklearn import TnlpadClassifier
>>> accuracies = cross_val_score(TnlpadClassifier(epochs=5, random_state=1), *load_iris(return_X_y=True))

A small network is trained by `Decomposition` on standardised features and predicts with σ. The accuracy on held-out
samples with noisy labels selects the epoch, so neither clean labels nor the share of wrong labels is needed.

How it differs from the paper: the learning rate follows a cosine. Its default and that of c2 gave the best accuracy on
noisy held-out labels over several tables (`benchmarks/own_defaults.py`).

Sparse matrices, such as those of scikit-learn's text vectorisers, are divided by one number, their typical spread,
and stay sparse except for one batch at a time. Standardising each column would give rare words the largest values.

With `folds=5`, `suspects` lists the labels that are probably wrong, each judged by networks that never saw it.

There is no `sample_weight`. scikit-learn requires that a weight of two equals passing the sample twice, which training
on random batches cannot guarantee.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import issparse  # type: ignore[import-untyped, unused-ignore]
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.split import parameter_groups
from tnlpad.runs.folds import belonging_together, divide
from tnlpad.suspects.from_probabilities import Found, find_among
from tnlpad.suspects.listing import Suspect

Module = Callable[[tuple[int, ...], int], nn.Module]

BASES: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {}),
}
MIN_VALIDATION_SAMPLES = 20  # with fewer, the validation accuracy of an epoch is mostly chance
PREDICTION_BATCH = 4096


@dataclass(frozen=True, eq=False)
class _SparseSamples:
    """A sparse matrix of samples, already scaled, of which rows become dense tensors on the device."""

    matrix: Any
    device: str

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, rows: Tensor) -> Tensor:
        dense = self.matrix[rows.cpu().numpy()].toarray()
        return torch.from_numpy(dense.astype(np.float32)).to(self.device)


@dataclass(frozen=True, eq=False)
class _Data:
    """Samples and labels on the device, and the indices of the training and the validation samples."""

    samples: "Tensor | _SparseSamples"
    labels: Tensor
    train: Tensor
    validation: Tensor

    def batches(self, size: int) -> tuple[Tensor, ...]:
        """Shuffle the training samples into batches of nearly equal size; BatchNorm fails on a batch of 1."""
        order = self.train[torch.randperm(len(self.train)).to(self.train.device)]
        return order.tensor_split(math.ceil(len(order) / size))

    @torch.no_grad()
    def validate(self, network: nn.Module) -> tuple[float, float]:
        """Return the accuracy on the validation samples by given labels, and minus their loss to break ties."""
        if not len(self.validation):
            return 0.0, 0.0
        logits = torch.cat([network(self.samples[batch]) for batch in self.validation.split(PREDICTION_BATCH)])
        labels = self.labels[self.validation]
        return (logits.argmax(1) == labels).float().mean().item(), -F.cross_entropy(logits, labels).item()


class TnlpadClassifier(ClassifierMixin, BaseEstimator):
    """A network trained as w = σ + γ that predicts with σ, for tables or arrays of images with partly wrong labels.

    Args:
        module: A function `(input_shape, num_classes) -> nn.Module` whose network returns one logit per class. By
            default, a network of linear layers with ReLU.
        hidden: Widths of the default network's hidden layers.
        optimizer: "sgd" (momentum 0.9), or "adamw", which needs a learning rate of about 0.001.
        learning_rate, weight_decay: Options of the optimizer; the learning rate falls to zero along a cosine.
        c1, c2: Strengths of the penalties on σ and γ; a larger c2 releases γ earlier. Worth a grid search.
        epochs, batch_size: Number of epochs, and of samples per batch.
        validation_fraction: Share of the samples held out to select the epoch. If these would be fewer than 20, all
            samples are trained on and the last epoch is kept.
        folds: Number of folds for `suspects`. Each costs one more training, on the samples of the other folds; exact
            and, of dense features, near duplicates stay in one fold. 0 trains none.
        device: Device to train and predict on, such as "cpu" or "cuda".
        random_state: Seed or generator, as in scikit-learn.

    Attributes:
        classes_: Sorted class labels.
        module_: The trained network, with σ as its weights. It expects standardised features.
        mean_, scale_: Mean and scale of the features in training; for a sparse matrix, zeros and one number.
        epoch_: The selected epoch, 1-based.
        found_: With `folds`, what `tnlpad.find_suspects` returns: suspects, noise rate, caution. Otherwise None.
    """

    def __init__(
        self,
        module: Module | None = None,
        *,
        hidden: Sequence[int] = (128, 128),
        optimizer: Literal["sgd", "adamw"] = "sgd",
        learning_rate: float = 0.005,
        weight_decay: float = 1e-3,
        c1: float = 1e-4,
        c2: float = 0.3,
        epochs: int = 60,
        batch_size: int = 64,
        validation_fraction: float = 0.1,
        folds: int = 0,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.module = module
        self.hidden = hidden
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.c1 = c1
        self.c2 = c2
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.folds = folds
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "TnlpadClassifier":
        """Train on samples X, dense or sparse, and their labels y, some of which may be wrong."""
        self._check_parameters()
        X, y = validate_data(self, X, y, allow_nd=True, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.mean_, self.scale_ = _sparse_scale(X) if issparse(X) else _mean_and_scale(X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        samples = self._standardised(X)
        self.module_, self.epoch_ = self._fitted(samples, labels, np.arange(len(labels)), seed)
        self.found_ = self._judged_out_of_fold(samples, labels, seed) if self.folds else None
        return self

    @property
    def suspects(self) -> list[Suspect]:
        """Labels that are more likely wrong than right, the most suspicious first; an index is a row of X.

        Each label was judged by networks that never saw it and, of dense features, by the nearest samples. None is
        listed if these know too little; `found_.caution` says so. Needs `folds`.
        """
        check_is_fitted(self)
        if self.found_ is None:
            raise AttributeError(f"folds={self.folds}: no label was judged. Fit with folds=5.")
        return self.found_.suspects

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, allow_nd=True, accept_sparse="csr")
        if X.shape[1:] != self.mean_.shape:
            raise ValueError(f"Samples have shape {X.shape[1:]}, but training samples had {self.mean_.shape}.")
        samples = self._standardised(X)
        return _probabilities(self.module_, samples, np.arange(len(samples)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each sample."""
        most_probable = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[most_probable]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        if self.optimizer not in BASES:
            raise ValueError(f"optimizer={self.optimizer!r}: choose one of {', '.join(BASES)}.")
        if not _is_whole(self.epochs, 1):
            raise ValueError(f"epochs={self.epochs!r}: must be a whole number of at least 1.")
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size!r}: must be at least 1.")
        if np.ndim(self.hidden) != 1 or not all(_is_whole(width, 1) for width in self.hidden):
            raise ValueError(f"hidden={self.hidden!r}: must be widths of at least 1, such as (128, 128).")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction={self.validation_fraction!r}: must lie in [0, 1).")
        if not _is_whole(self.folds, 0) or self.folds == 1:
            raise ValueError(f"folds={self.folds!r}: must be 0, or a whole number of at least 2.")

    def _standardised(self, X: Any) -> "Tensor | _SparseSamples":
        if issparse(X) and not self.mean_.any():
            return _SparseSamples(X.multiply(1 / self.scale_).tocsr(), self.device)
        if issparse(X):
            X = X.toarray()
        return torch.from_numpy(((X - self.mean_) / self.scale_).astype(np.float32)).to(self.device)

    def _fitted(
        self, samples: "Tensor | _SparseSamples", labels: np.ndarray, rows: np.ndarray, seed: int
    ) -> tuple[nn.Module, int]:
        """Train on these rows; return the network with σ as its weights, and the selected epoch."""
        train, validation = (torch.from_numpy(rows[part]).to(self.device) for part in self._split(labels[rows], seed))
        with _seeded(seed, torch.device(self.device)):
            network = self._network().to(self.device)
            data = _Data(samples, torch.from_numpy(labels).to(self.device), train, validation)
            epoch, sigma = self._train(network, data)
        network.load_state_dict(sigma)
        return network.eval(), epoch

    def _judged_out_of_fold(self, samples: "Tensor | _SparseSamples", labels: np.ndarray, seed: int) -> Found:
        (fold,) = divide(labels, self.folds, 1, np.random.default_rng(seed), _together(samples))
        probabilities = np.empty((len(labels), len(self.classes_)), dtype=np.float32)
        for number in range(self.folds):
            rows = np.flatnonzero(fold == number)
            network, _ = self._fitted(samples, labels, np.flatnonzero(fold != number), seed + 1 + number)
            probabilities[rows] = _probabilities(network, samples, rows)
        return find_among(
            probabilities,
            labels,
            tuple(str(name) for name in self.classes_),
            ids=[str(row) for row in range(len(labels))],
            features=samples.flatten(1) if isinstance(samples, Tensor) else None,
        )

    def _split(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the training and the validation samples."""
        every, count = np.arange(len(labels)), int(self.validation_fraction * len(labels))
        if count < MIN_VALIDATION_SAMPLES:
            return every, every[:0]
        # Stratified, unless a class has too few samples or there are too many classes.
        stratified = np.bincount(labels).min() > 1 and len(self.classes_) <= min(count, len(labels) - count)
        train, validation = train_test_split(
            every, test_size=count, random_state=seed, stratify=labels if stratified else None
        )
        return train, validation

    def _network(self) -> nn.Module:
        shape, num_classes = self.mean_.shape, len(self.classes_)
        if self.module is not None:
            return self.module(shape, num_classes)
        widths = [math.prod(shape), *self.hidden]
        hidden = [(nn.Linear(before, after), nn.ReLU()) for before, after in pairwise(widths)]
        return nn.Sequential(nn.Flatten(), *chain(*hidden), nn.Linear(widths[-1], num_classes))

    def _train(self, network: nn.Module, data: _Data) -> tuple[int, dict[str, Any]]:
        """Train; return the selected epoch and the network's state after it, with σ as its weights."""
        base, options = BASES[self.optimizer]
        optimizer = Decomposition(
            parameter_groups(network),
            base,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            c1=self.c1,
            c2=self.c2,
            **options,
        )
        schedule = CosineAnnealingLR(optimizer, self.epochs)
        best = (-1.0, 0.0)
        for epoch in range(1, self.epochs + 1):
            optimizer.start_epoch()
            network.train()
            for batch in data.batches(self.batch_size):
                logits, expected = network(data.samples[batch]), (len(batch), len(self.classes_))
                if logits.shape != expected:
                    raise ValueError(
                        f"The network of `module` returns outputs of shape {tuple(logits.shape)} where {expected} is "
                        "needed: one logit for each sample and class."
                    )
                loss = F.cross_entropy(logits, data.labels[batch])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            schedule.step()
            if not loss.isfinite():
                raise ValueError(
                    f"The loss is {loss.item()} in epoch {epoch}: learning_rate={self.learning_rate} is too high."
                )
            network.eval()
            with optimizer.sigma_weights():
                found = data.validate(network)
            # Without validation samples, the last epoch is kept.
            if found > best or not len(data.validation):
                best, chosen, sigma = found, epoch, optimizer.sigma_state_dict(network)
        return chosen, sigma


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= least)


@torch.inference_mode()
def _probabilities(network: nn.Module, samples: "Tensor | _SparseSamples", rows: np.ndarray) -> np.ndarray:
    logits = [network(samples[batch]) for batch in torch.from_numpy(rows).split(PREDICTION_BATCH)]
    probabilities: np.ndarray = torch.cat(logits).softmax(1).cpu().numpy()
    return probabilities


def _together(samples: "Tensor | _SparseSamples") -> np.ndarray:
    """Number the samples so that duplicates have the same number."""
    if isinstance(samples, _SparseSamples):
        matrix = samples.matrix.sorted_indices()
        parts = [slice(*ends) for ends in pairwise(matrix.indptr)]
        digests = [matrix.indices[part].tobytes() + matrix.data[part].tobytes() for part in parts]
        return belonging_together(np.empty((len(samples), 0), dtype=np.float32), digests)
    rows = samples.cpu().numpy().reshape(len(samples), -1)
    return belonging_together(rows, [row.tobytes() for row in rows])


def _mean_and_scale(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    # A constant column of 0.1 has a rounding spread of 1e-16; dividing another value by it would explode.
    varies = (spread > 0) & (X.max(axis=0) > X.min(axis=0))
    return mean, np.where(varies, spread, 1.0)


def _sparse_scale(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return no mean, which would make the matrix dense, and the root mean square spread of the columns that vary."""
    X = X.astype(np.float64)
    mean, squares = (np.asarray(each.mean(axis=0)).ravel() for each in (X, X.multiply(X)))
    variance = squares - mean**2
    varies = variance > 1e-12 * squares  # of a constant column, a rounding error is left
    scale = float(np.sqrt(variance[varies].mean())) if varies.any() else 1.0
    return np.zeros(X.shape[1]), np.full(X.shape[1], scale or 1.0)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block, torch's global generators start from this seed; afterwards they are restored."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)  # seeds the current GPU alone
        yield
