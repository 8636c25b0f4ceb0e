import pytest
import torch
from torch import nn

from tnlpad.networks.residual import Bottleneck, shortcut, stage


def test_the_first_block_of_a_stage_changes_the_shape():
    made = []

    def block(in_channels, channels, stride):
        made.append((in_channels, channels, stride))
        return nn.Identity()

    assert len(stage(block, 64, 128, 2, 3, expansion=4)) == 3
    assert made == [(64, 128, 2), (512, 128, 1), (512, 128, 1)]


@pytest.mark.parametrize(("channels", "stride"), [((8, 16), 1), ((8, 8), 2), ((16, 8), 2)])
def test_a_shortcut_has_a_convolution_where_the_shape_changes(channels, stride):
    convolution, normalisation = shortcut(*channels, stride)
    assert (convolution.kernel_size, convolution.stride, convolution.bias) == ((1, 1), (stride, stride), None)
    assert normalisation.num_features == channels[1]
    assert isinstance(shortcut(channels[0], channels[0], 1), nn.Identity)


def test_a_bottleneck_puts_out_four_times_its_channels_and_has_its_stride_and_groups_in_the_middle():
    block = Bottleneck(6, 4, 2, groups=2)
    assert block(torch.rand(2, 6, 8, 8)).shape == (2, 16, 4, 4)
    assert [c.stride[0] for c in (block.conv1, block.conv2, block.conv3)] == [1, 2, 1]
    assert [c.groups for c in (block.conv1, block.conv2, block.conv3)] == [1, 2, 1]
