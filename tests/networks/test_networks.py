"""Tests of every network of the table. The other files here test what only one of them has."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tnlpad import Decomposition, networks, parameter_groups
from tnlpad.networks import NETWORKS, build
from tnlpad.networks.resnext import ResNeXt

# Name, options, and the counts: all, convolutions and linear layers, normalisation, decomposed.
COUNTS = [
    ("lenet", {}, 61_706, 61_706, 0, 123_412),
    ("resnet18", {}, 11_173_962, 11_164_362, 9_600, 22_338_324),
    ("resnet18", {"in_channels": 1}, 11_172_810, 11_163_210, 9_600, 22_336_020),
    ("resnet18", {"num_classes": 100}, 11_220_132, 11_210_532, 9_600, 22_430_664),
    ("resnet34", {}, 21_282_122, 21_265_098, 17_024, 42_547_220),
    ("resnet34", {"num_classes": 100}, 21_328_292, 21_311_268, 17_024, 42_639_560),
    ("resnet50", {}, 23_520_842, 23_467_722, 53_120, 46_988_564),
    ("resnet50", {"num_classes": 100}, 23_705_252, 23_652_132, 53_120, 47_357_384),
    ("resnet50", {"in_channels": 1}, 23_519_690, 23_466_570, 53_120, 46_986_260),
    ("preact_resnet18", {}, 11_171_146, 11_164_362, 6_784, 22_335_508),
    ("preact_resnet18", {"num_classes": 100}, 11_217_316, 11_210_532, 6_784, 22_427_848),
    ("preact_resnet18_dividemix", {}, 11_171_274, 11_164_362, 6_912, 22_335_636),
    ("preact_resnet18_dividemix", {"num_classes": 100}, 11_217_444, 11_210_532, 6_912, 22_427_976),
    ("vgg19", {}, 20_040_522, 20_029_514, 11_008, 40_070_036),
    ("vgg19", {"num_classes": 100}, 20_086_692, 20_075_684, 11_008, 40_162_376),
    ("resnext29_32x4d", {}, 4_774_218, 4_749_002, 25_216, 9_523_220),
    ("resnext29_32x4d", {"num_classes": 100}, 4_866_468, 4_841_252, 25_216, 9_707_720),
    ("resnext29_2x64d", {}, 9_128_778, 9_103_562, 25_216, 18_232_340),
    ("resnext29_2x64d", {"num_classes": 100}, 9_221_028, 9_195_812, 25_216, 18_416_840),
    ("resnext29_4x64d", {}, 27_104_586, 27_054_282, 50_304, 54_158_868),
    ("resnext29_4x64d", {"num_classes": 100}, 27_288_996, 27_238_692, 50_304, 54_527_688),
    ("wide_resnet28_2", {}, 1_467_610, 1_463_994, 3_616, 2_931_604),
    ("wide_resnet28_2", {"num_classes": 100}, 1_479_220, 1_475_604, 3_616, 2_954_824),
    ("wide_resnet28_4", {}, 5_849_050, 5_841_850, 7_200, 11_690_900),
    ("wide_resnet28_4", {"num_classes": 100}, 5_872_180, 5_864_980, 7_200, 11_737_160),
    ("wide_resnet28_10", {}, 36_479_194, 36_461_242, 17_952, 72_940_436),
    ("wide_resnet28_10", {"num_classes": 100}, 36_536_884, 36_518_932, 17_952, 73_055_816),
    ("imagenet_resnet50", {}, 25_557_032, 25_503_912, 53_120, 51_060_944),
    ("imagenet_resnet50", {"num_classes": 101}, 23_714_981, 23_661_861, 53_120, 47_376_842),
    ("imagenet_resnet50", {"num_classes": 14}, 23_536_718, 23_483_598, 53_120, 47_020_316),
    ("efficientnet_lite0", {}, 4_652_008, 4_609_992, 42_016, 9_262_000),
    ("efficientnet_lite0", {"num_classes": 20}, 3_396_628, 3_354_612, 42_016, 6_751_240),
    # Our own; group normalisation counts as normalisation.
    ("small_cnn", {}, 22_650, 22_554, 96, 45_204),
    ("small_resnet", {}, 309_290, 308_330, 960, 617_620),
    ("mlp", {}, 18_314, 17_802, 512, 36_116),
    ("head", {"in_channels": 2}, 3_338, 3_338, 0, 6_676),
]

FEATURES = {
    "lenet": 84,
    "resnet18": 512,
    "resnet34": 512,
    "resnet50": 2048,
    "preact_resnet18": 512,
    "preact_resnet18_dividemix": 512,
    "wide_resnet28_2": 128,
    "wide_resnet28_4": 256,
    "wide_resnet28_10": 640,
    "vgg19": 512,
    "resnext29_32x4d": 1024,
    "resnext29_2x64d": 1024,
    "resnext29_4x64d": 2048,
    "imagenet_resnet50": 2048,
    "efficientnet_lite0": 1280,
    "small_cnn": 128,
    "small_resnet": 128,
    "mlp": 128,
    "head": 256,
}

FIXED_SIZE = {"lenet": 28, "small_cnn": 8, "mlp": 1, "head": 1}  # the others pool whatever is left

every_network = pytest.mark.parametrize("name", NETWORKS)


def weightless(name, **options):
    """Shapes and counts need no memory and no arithmetic."""
    with torch.device("meta"):
        return build(name, **options)


def small_images(name, count=4, seed=0):
    size = FIXED_SIZE.get(name, 32 if name.startswith("imagenet") else 8)
    return torch.rand(count, 2, size, size, generator=torch.Generator().manual_seed(seed))


def sizes(network):
    """Parameters in convolutions and linear layers, and elsewhere."""
    decomposed, *ordinary = parameter_groups(network)
    return sum(p.numel() for p in decomposed["params"]), sum(p.numel() for g in ordinary for p in g["params"])


def test_the_tables_cover_every_network():
    assert len(NETWORKS) == 19
    assert len(COUNTS) == 36
    assert {row[0] for row in COUNTS} == set(NETWORKS) == set(FEATURES)


@pytest.mark.parametrize(("name", "options", "plain", "conv_linear", "norm", "decomposed"), COUNTS)
def test_parameter_counts(name, options, plain, conv_linear, norm, decomposed):
    network = weightless(name, **options)
    assert sum(p.numel() for p in network.parameters()) == plain
    assert sizes(network) == (conv_linear, norm)
    assert 2 * conv_linear + norm == decomposed
    normalisation = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm)]
    assert sum(p.numel() for m in normalisation for p in m.parameters()) == norm


def test_parameter_counts_of_a_resnext_beyond_the_table():
    with torch.device("meta"):
        network = ResNeXt(cardinality=8, width=64)
    assert sizes(network) == (89_497_802, 100_480)


@every_network
def test_shapes(name):
    network = weightless(name, num_classes=7, in_channels=2)
    tried = [FIXED_SIZE[name]] if name in FIXED_SIZE else [28, 32, 112]
    for size in tried:
        images = torch.empty(3, 2, size, size, device="meta")
        assert network(images).shape == (3, 7)
        assert network.features(images).shape == (3, FEATURES[name])


@every_network
def test_judging_is_repeatable_and_ends_in_the_classifier(name):
    network = build(name, num_classes=7, in_channels=2).eval()
    images = small_images(name)
    with torch.no_grad():
        logits = network(images)
        assert torch.equal(network(images), logits)
        # In eval mode an image does not depend on the others of its batch.
        torch.testing.assert_close(network(images[:1]), logits[:1], rtol=1e-4, atol=1e-5)
        assert isinstance(network.classifier, nn.Linear)
        torch.testing.assert_close(network.classifier(network.features(images)), logits)


@every_network
def test_trains_two_steps_under_the_decomposition(name):
    torch.manual_seed(0)
    network = build(name, num_classes=3, in_channels=2)
    optimizer = Decomposition(parameter_groups(network), torch.optim.SGD, lr=0.01)
    optimizer.start_epoch()
    start = {key: w.detach().clone() for key, w in network.named_parameters()}
    labels = torch.tensor([0, 1, 2, 0])
    for step in range(2):
        loss = F.cross_entropy(network(small_images(name, seed=step)), labels)
        loss.backward()
        assert torch.isfinite(loss)
        for key, w in network.named_parameters():
            assert w.grad is not None, f"{key} is not used"
            # Biases before normalisation have a gradient of zero, and rightly so.
            assert w.ndim == 1 or w.grad.abs().max() > 0, f"{key} gets no gradient"
        optimizer.step()
        optimizer.zero_grad()
    for key, w in network.named_parameters():
        assert w.ndim == 1 or not torch.equal(w, start[key]), f"{key} has not moved"
    check_sigma_is_an_ordinary_network(name, network.eval(), optimizer)


def check_sigma_is_an_ordinary_network(name, network, optimizer):
    fresh = weightless(name, num_classes=3, in_channels=2).eval()
    fresh.load_state_dict(optimizer.sigma_state_dict(network), assign=True)
    images = small_images(name)
    with torch.no_grad():
        by_w = network(images)
        with optimizer.sigma_weights():
            by_sigma = network(images)
        assert torch.equal(fresh(images), by_sigma)
    assert not torch.equal(by_w, by_sigma)


@every_network
def test_weights_start_as_pytorch_starts_them(name):
    # U(−1/√fan_in, 1/√fan_in) for weights; 1 and 0 for normalisation.
    torch.manual_seed(0)
    network = build(name)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = module.weight[0].numel() ** -0.5
            assert 0.8 * bound < module.weight.abs().max() <= bound
        elif isinstance(module, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_build_names_the_nearest():
    with pytest.raises(ValueError, match=r"network='resnet19' is unknown: did you mean resnet18\?"):
        build("resnet19")
    with pytest.raises(ValueError, match=r"network='x' is unknown: choose one of lenet, resnet18, .*, head\."):
        build("x")
    with pytest.raises(ValueError, match=r"resnet18 has no option 'stem_pading': did you mean stem_padding\?"):
        build("resnet18", stem_pading=0)
    with pytest.raises(ValueError, match=r"vgg19 has no option 'x': choose one of num_classes, in_channels\."):
        build("vgg19", x=0)


def test_the_public_names_exist():
    assert all(hasattr(networks, name) for name in networks.__all__)
    assert all(getattr(networks, name) is constructor for name, constructor in NETWORKS.items())
