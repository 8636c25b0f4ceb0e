import pytest
import torch
from torch import nn

from tnlpad.networks import resnext29_2x64d, resnext29_4x64d, resnext29_32x4d


@pytest.mark.parametrize(
    ("constructor", "groups", "width"), [(resnext29_32x4d, 32, 4), (resnext29_2x64d, 2, 64), (resnext29_4x64d, 4, 64)]
)
def test_groups_keep_their_number_and_double_their_width(constructor, groups, width):
    with torch.device("meta"):
        network = constructor()
        maps = [network.stem(torch.empty(1, 3, 32, 32))]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    grouped = [block.conv2 for stage in network.stages for block in stage]
    assert [c.stride[0] for c in grouped] == [1, 1, 1, 2, 1, 1, 2, 1, 1]
    assert [c.groups for c in grouped] == [groups] * 9
    assert [c.out_channels // c.groups for c in grouped] == [width] * 3 + [2 * width] * 3 + [4 * width] * 3
    assert [m.shape[-1] for m in maps] == [32, 32, 16, 8]
    assert [m.shape[1] for m in maps] == [64] + [2 * groups * width * n for n in (1, 2, 4)]


def test_stem_and_shortcuts():
    network = resnext29_32x4d()
    assert network.stem[0].kernel_size == (1, 1)
    identities = [[isinstance(block.shortcut, nn.Identity) for block in stage] for stage in network.stages]
    assert identities == [[False, True, True]] * 3


def test_a_block_adds_its_input_where_shapes_agree():
    block = resnext29_32x4d().stages[0][1].eval()
    nn.init.zeros_(block.bn3.weight)
    x = torch.rand(1, 256, 4, 4)
    torch.testing.assert_close(block(x), x)
