import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tnlpad.networks import imagenet_resnet50


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
