"""What every network here is: features, one row per image, and a linear classifier that makes logits of them."""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F


class Network(nn.Module):
    """A module whose last step is `classifier`, a linear layer; each network says what `features` are."""

    def features(self, images: Tensor) -> Tensor:
        """The penultimate layer, one row per image."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row per image."""
        classifier = cast(nn.Linear, self.classifier)
        return cast(Tensor, classifier(self.features(images)))


def pooled(maps: Tensor) -> Tensor:
    """The mean of each map, whatever its size: one row per image."""
    return F.adaptive_avg_pool2d(maps, 1).flatten(1)
