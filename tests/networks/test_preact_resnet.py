import torch
from torch import nn

from tnlpad.networks import preact_resnet18, preact_resnet18_dividemix
from tnlpad.networks.preact_resnet import PreActBlock


def test_maps():
    with torch.device("meta"):
        network = preact_resnet18()
        maps = [network.stem(torch.empty(1, 3, 28, 28))]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    assert [tuple(m.shape[1:]) for m in maps] == [(64, 28, 28), (64, 28, 28), (128, 14, 14), (256, 7, 7), (512, 4, 4)]


def test_the_identity_carries_the_input_itself():
    block = PreActBlock(4, 4, 1).eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(x), x)


def test_the_convolution_of_the_shortcut_sees_the_activated_input():
    block = PreActBlock(4, 8, 2).eval()
    nn.init.zeros_(block.conv2.weight)
    # All negative before the normalisation, and after it: nothing passes ReLU.
    assert torch.equal(block(-torch.rand(2, 4, 6, 6)), torch.zeros(2, 8, 3, 3))


def test_nothing_follows_the_last_block():
    network = preact_resnet18().eval()
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(network.features(images), network.stages(network.stem(images)).mean((2, 3)))


def test_the_variants_differ_in_the_stem_alone():
    plain, dividemix = preact_resnet18().state_dict(), preact_resnet18_dividemix().state_dict()
    assert {key for key in dividemix if key not in plain} == {
        f"stem.1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }
    assert plain.keys() <= dividemix.keys()
    images = -torch.rand(1, 3, 8, 8)
    assert preact_resnet18().stem(images).min() < 0
    assert preact_resnet18_dividemix().stem(images).min() == 0
