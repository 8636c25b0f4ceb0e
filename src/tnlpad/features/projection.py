"""The principal components of features: fewer numbers per sample, so that heads train several times faster.

Features are standardised first. The components are not scaled to unit variance: directions in which the samples hardly
differ stay small.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tnlpad.features.cache import Features
from tnlpad.features.encoder import damaged, read_encoder, write_encoder

if TYPE_CHECKING:
    from torch import nn

MAX_DIMENSIONS = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """A fitted projection: features · weight + bias."""

    kind: ClassVar[str] = "projection"
    weight: Features
    bias: Features

    @classmethod
    def fit(cls, features: Features, *, seed: int = 0) -> "Projection":
        """Fit to training rows, without their labels."""
        from sklearn.decomposition import PCA

        mean, scale = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
        scale[scale == 0] = 1
        count = min(MAX_DIMENSIONS, *features.shape)
        solver = "full" if count == features.shape[1] else "randomized"
        fitted = PCA(count, svd_solver=solver, random_state=seed).fit((features - mean) / scale)
        weight = fitted.components_.T / scale[:, None]
        return cls(weight=weight.astype(np.float32), bias=(-mean @ weight).astype(np.float32))

    @property
    def dimensions(self) -> int:
        return int(self.weight.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(f"component {number}" for number in range(1, self.dimensions + 1))

    def transform(self, features: Features) -> Features:
        return features @ self.weight + self.bias

    def module(self) -> "nn.Module":
        """Return the projection as a layer."""
        import torch
        from torch import nn

        layer = nn.Linear(*self.weight.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(self.weight.T.copy()))
            layer.bias.copy_(torch.from_numpy(self.bias))
        return layer

    def to_files(self, folder: Path) -> None:
        write_encoder(folder, {"kind": self.kind}, {"weight": self.weight, "bias": self.bias})

    @classmethod
    def from_files(cls, folder: Path) -> "Projection":
        _, arrays = read_encoder(folder)
        weight, bias = arrays.get("weight"), arrays.get("bias")
        if weight is None or bias is None or weight.ndim != 2 or weight.shape[1:] != bias.shape:
            raise damaged(folder)
        return cls(weight=weight, bias=bias)
