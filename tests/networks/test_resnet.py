import pytest
import torch
from torch import nn

from tnlpad.networks import resnet18, resnet34, resnet50


@pytest.mark.parametrize(
    ("size", "padding", "sizes"),
    [
        (32, 1, [32, 32, 16, 8, 4]),
        (32, 0, [30, 30, 15, 8, 4]),
        (28, 1, [28, 28, 14, 7, 4]),
        (28, 0, [26, 26, 13, 7, 4]),
    ],
)
def test_feature_maps(size, padding, sizes):
    with torch.device("meta"):
        network = resnet18(in_channels=1, stem_padding=padding)
        maps = [network.stem(torch.empty(1, 1, size, size))]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    assert [m.shape[-1] for m in maps] == sizes
    assert [m.shape[1] for m in maps] == [64, 64, 128, 256, 512]


def test_a_block_adds_its_input_where_shapes_agree():
    network = resnet18()
    shortcuts = [[type(block.shortcut) is nn.Identity for block in stage] for stage in network.stages]
    assert shortcuts == [[True, True], [False, True], [False, True], [False, True]]
    block = network.stages[0][0].eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 64, 4, 4)
    torch.testing.assert_close(block(x), x)


def test_the_stride_of_a_bottleneck_lies_on_the_3x3_convolution():
    with torch.device("meta"):
        blocks = [stage[0] for stage in resnet50().stages]
    assert [block.conv2.stride[0] for block in blocks] == [1, 2, 2, 2]
    assert all(block.conv1.stride == block.conv3.stride == (1, 1) for block in blocks)


def test_stem_padding_is_zero_or_one():
    with pytest.raises(ValueError, match="stem_padding=2"):
        resnet18(stem_padding=2)


@pytest.mark.parametrize(("constructor", "convolutions"), [(resnet18, 20), (resnet34, 36), (resnet50, 53)])
def test_depth(constructor, convolutions):
    # The name counts the linear layer but not the convolutions on shortcuts: three, or four beside bottlenecks.
    with torch.device("meta"):
        network = constructor()
    assert sum(isinstance(m, nn.Conv2d) for m in network.modules()) == convolutions
