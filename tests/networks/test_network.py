import pytest
import torch
from torch import nn

from tnlpad.networks.network import Network, pooled


class Doubled(Network):
    def __init__(self):
        super().__init__()
        self.classifier = nn.Linear(2, 3)

    def features(self, images):
        return 2 * images


def test_logits_are_the_classifier_of_the_features():
    network, images = Doubled(), torch.rand(4, 2)
    assert torch.equal(network(images), network.classifier(2 * images))


def test_a_network_must_say_what_its_features_are():
    with pytest.raises(NotImplementedError):
        Network().features(torch.rand(1, 2))


@pytest.mark.parametrize("size", [(1, 1), (3, 5)])
def test_pooled_is_the_mean_of_each_map(size):
    maps = torch.rand(2, 7, *size)
    torch.testing.assert_close(pooled(maps), maps.mean((2, 3)))
