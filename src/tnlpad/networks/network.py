"""The base class of all networks: features, one row per image, and a linear classifier on top of them."""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F


class Network(nn.Module):
    """A module whose last layer is the linear layer `classifier`; subclasses define `features`."""

    def features(self, images: Tensor) -> Tensor:
        """Return the penultimate layer, one row per image."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, one row per image."""
        classifier = cast(nn.Linear, self.classifier)
        return cast(Tensor, classifier(self.features(images)))

    def our_name(self, published: str) -> str:
        """Return the name here of a tensor of published weights; by default, both are the same."""
        return published


def pooled(maps: Tensor) -> Tensor:
    """Average each map over its pixels, giving one row per image."""
    return F.adaptive_avg_pool2d(maps, 1).flatten(1)
