import pytest
import torch
from torch import nn

from tnlpad.networks import wide_resnet28_2, wide_resnet28_4, wide_resnet28_10
from tnlpad.networks.wide_resnet import WideResNet


@pytest.mark.parametrize(("constructor", "k"), [(wide_resnet28_2, 2), (wide_resnet28_4, 4), (wide_resnet28_10, 10)])
def test_maps(constructor, k):
    with torch.device("meta"):
        network = constructor()
        maps = [network.stem(torch.empty(1, 3, 32, 32))]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    assert [tuple(m.shape[1:]) for m in maps] == [(16, 32, 32), (16 * k, 32, 32), (32 * k, 16, 16), (64 * k, 8, 8)]


def test_28_layers_without_biases():
    convolutions = [m for m in wide_resnet28_2().modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 28
    assert all(c.bias is None for c in convolutions)


def test_a_convolution_on_the_shortcut_only_where_the_shape_changes():
    shortcuts = [[block.shortcut is not None for block in stage] for stage in wide_resnet28_2().stages]
    assert shortcuts == [[True, False, False, False]] * 3
    narrow = WideResNet(widen=1)  # 16 channels after 16
    assert narrow.stages[0][0].shortcut is None


def test_normalisation_and_relu_come_last():
    network = wide_resnet28_2().eval()
    images = torch.rand(2, 3, 16, 16)
    maps = network.stages(network.stem(images))
    assert maps.min() < 0 <= network.features(images).min()
    torch.testing.assert_close(network.features(images), network.bn(maps).relu().mean((2, 3)))
