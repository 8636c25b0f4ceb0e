import pytest
import torch
from torch import nn

from tnlpad import Decomposition, parameter_groups
from tnlpad.networks import NETWORKS, resnet18, resnet34, resnet50


def count(network):
    return sum(p.numel() for p in network.parameters())


def count_norm(network):
    return sum(p.numel() for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters())


@pytest.mark.parametrize(
    ("constructor", "channels", "classes", "plain", "norm", "decomposed"),
    [
        (resnet18, 3, 10, 11_173_962, 9_600, 22_338_324),
        (resnet18, 1, 10, 11_172_810, 9_600, 22_336_020),
        (resnet18, 3, 100, 11_220_132, 9_600, 22_430_664),
        (resnet34, 3, 10, 21_282_122, 17_024, 42_547_220),
        (resnet34, 3, 100, 21_328_292, 17_024, 42_639_560),
        (resnet50, 3, 10, 23_520_842, 53_120, 46_988_564),
        (resnet50, 3, 100, 23_705_252, 53_120, 47_357_384),
        (resnet50, 1, 10, 23_519_690, 53_120, 46_986_260),
    ],
)
def test_parameter_counts(constructor, channels, classes, plain, norm, decomposed):
    with torch.device("meta"):  # the counts need no memory
        network = constructor(num_classes=classes, in_channels=channels)
    assert count(network) == plain
    assert count_norm(network) == norm
    parts, ordinary = parameter_groups(network)
    sizes = [sum(p.numel() for p in group["params"]) for group in (parts, ordinary)]
    assert 2 * sizes[0] + sizes[1] == decomposed


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
    network = resnet18(in_channels=1, stem_padding=padding).eval()
    maps = [network.stem(torch.zeros(1, 1, size, size))]
    for stage in network.stages:
        maps.append(stage(maps[-1]))
    assert [m.shape[-1] for m in maps] == sizes
    assert [m.shape[1] for m in maps] == [64, 64, 128, 256, 512]


@pytest.mark.parametrize(("constructor", "width"), [(resnet18, 512), (resnet50, 2048)])
def test_features_are_the_penultimate_layer(constructor, width):
    network = constructor(num_classes=7).eval()
    images = torch.rand(2, 3, 32, 32)
    features = network.features(images)
    assert features.shape == (2, width)
    torch.testing.assert_close(network.classifier(features), network(images))


def test_a_block_adds_its_input_where_shapes_agree():
    network = resnet18()
    shortcuts = [[type(block.shortcut) is nn.Identity for block in stage] for stage in network.stages]
    assert shortcuts == [[True, True], [False, True], [False, True], [False, True]]
    block = network.stages[0][0].eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 64, 4, 4)
    torch.testing.assert_close(block(x), x)


def test_stem_padding_is_zero_or_one():
    with pytest.raises(ValueError, match="stem_padding=2"):
        resnet18(stem_padding=2)


def test_trains_under_the_decomposition():
    network = resnet18(in_channels=1)
    optimizer = Decomposition(parameter_groups(network), torch.optim.SGD, lr=0.01)
    optimizer.start_epoch()
    before = network.classifier.weight.detach().clone()
    network(torch.rand(4, 1, 12, 12)).logsumexp(1).sum().backward()
    optimizer.step()
    assert not torch.equal(before, network.classifier.weight)


def test_every_network_of_the_table_keeps_its_promises():
    assert len(NETWORKS) >= 4
    for name, constructor in NETWORKS.items():
        network = constructor(num_classes=3, in_channels=2).eval()
        images = torch.rand(2, 2, 8, 8)
        assert network(images).shape == (2, 3), name
        assert network.features(images).shape[0] == 2, name
