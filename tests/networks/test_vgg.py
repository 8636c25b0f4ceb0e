import pytest
import torch
from torch import nn

from tnlpad.networks import vgg19


@pytest.mark.parametrize(
    ("size", "sizes"),
    [(32, [16, 8, 4, 2, 1]), (28, [14, 7, 4, 2, 1]), (224, [112, 56, 28, 14, 7]), (8, [4, 2, 1, 1, 1])],
)
def test_maps(size, sizes):
    with torch.device("meta"):
        network, maps = vgg19().eval(), [torch.empty(1, 3, size, size)]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    assert [m.shape[-1] for m in maps[1:]] == sizes
    assert [m.shape[1] for m in maps[1:]] == [64, 128, 256, 512, 512]


def test_sixteen_convolutions_with_bias_and_one_linear_layer():
    modules = list(vgg19().modules())
    convolutions = [m for m in modules if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 16
    assert all(c.bias is not None for c in convolutions)
    assert sum(isinstance(m, nn.Linear) for m in modules) == 1
