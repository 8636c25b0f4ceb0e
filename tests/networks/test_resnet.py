import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tnlpad.networks import imagenet_resnet50, resnet18, resnet34, resnet50
from tnlpad.networks.resnet import Bottleneck, shortcut, stage


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
    for part in network.stages:
        maps.append(part(maps[-1]))
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


def weightless(**options):
    with torch.device("meta"):
        return imagenet_resnet50(**options)


@pytest.mark.parametrize(("size", "sizes"), [(224, [112, 56, 56, 28, 14, 7]), (112, [56, 28, 28, 14, 7, 4])])
def test_maps(size, sizes):
    network, seen = weightless(), []
    network.conv1.register_forward_hook(lambda _module, _inputs, maps: seen.append(maps.shape[-1]))
    network.layer1.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].shape[-1]))
    for layer in (network.layer1, network.layer2, network.layer3, network.layer4):
        layer.register_forward_hook(lambda _module, _inputs, maps: seen.append(maps.shape[-1]))
    network(torch.empty(1, 3, size, size, device="meta"))
    assert seen == sizes


def test_the_stride_lies_on_the_3x3_convolution():
    # Parameter counts are the same either way; the published number of multiplications is 4.089e9 for this one.
    with FlopCounterMode(display=False) as counter:
        weightless()(torch.empty(1, 3, 224, 224, device="meta"))
    assert counter.get_total_flops() / 2 == pytest.approx(4.089e9, rel=1e-3)


def test_keys_and_shapes_are_those_of_the_published_weights():
    state = weightless().state_dict()
    # 6 of the stem, 16 blocks with three convolutions and normalisations, 4 shortcuts, 2 of the last layer.
    assert len(state) == 6 + 16 * 3 * 6 + 4 * 6 + 2 == 320
    expected = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_mean": (64,),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.running_var": (256,),
        "layer2.3.bn3.bias": (512,),
        "layer3.5.conv2.weight": (256, 256, 3, 3),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
        "layer4.2.bn2.num_batches_tracked": (),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert {key: tuple(state[key].shape) for key in expected} == expected
    assert {key.split(".")[0] for key in state} == {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"}
    assert {key.split(".")[1] for key in state if ".downsample." in key} == {"0"}
