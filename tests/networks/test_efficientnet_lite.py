from functools import cache

import pytest
import torch

from tnlpad.networks import build, load_pretrained
from tnlpad.networks.efficientnet_lite import same_padding


def randomised(network):
    """Give normalisation other values than 1 and 0, so that a mixed-up name changes the outputs."""
    generator = torch.Generator().manual_seed(1)
    for key, tensor in network.state_dict().items():
        if tensor.ndim == 1:
            tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + (0.5 if "bias" not in key else 0))
    return network.eval()


@cache
def oracle(size=None):
    """Return the network that the published weights belong to; without a size it pads as TensorFlow does."""
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the extra [dev] is not installed")
    torch.manual_seed(0)
    return randomised(package.EfficientNet.from_name("efficientnet-lite0", num_classes=11, image_size=size))


@pytest.mark.parametrize(("height", "width"), [(64, 64), (128, 128), (224, 224), (65, 97), (75, 75), (33, 50)])
def test_equals_the_published_network(height, width):
    theirs = oracle()
    ours = build("efficientnet_lite0", num_classes=11).eval()
    ours.load_state_dict({ours.our_name(key): tensor for key, tensor in theirs.state_dict().items()})
    images = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(2)) * 2 - 1
    with torch.no_grad():
        maps = theirs.extract_features(images)
        torch.testing.assert_close(ours.features(images), maps.mean((2, 3)), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-5, atol=1e-5)


def test_published_file_loads_by_its_names(tmp_path):
    theirs = oracle(size=224)
    path = tmp_path / "published.pth"
    torch.save(theirs.state_dict(), path)
    ours = build("efficientnet_lite0", num_classes=11).eval()
    loaded = load_pretrained(ours, path, head="classifier")
    assert not loaded.new_head
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-5, atol=1e-5)
    other = build("efficientnet_lite0", num_classes=3)
    before = other.classifier.weight.detach().clone()
    assert load_pretrained(other, path, head="classifier").new_head
    assert torch.equal(other.classifier.weight, before)
    assert torch.equal(other.stem.conv.weight, theirs.state_dict()["_conv_stem.weight"])


def test_every_name_is_mapped_once():
    ours = build("efficientnet_lite0")
    keys = list(oracle().state_dict())
    assert sorted(map(ours.our_name, keys)) == sorted(ours.state_dict())
    assert ours.our_name("stem.conv.weight") == "stem.conv.weight"


@pytest.mark.parametrize(("size", "kernel", "stride"), [(s, k, 2) for s in (1, 2, 7, 8, 112, 113) for k in (3, 5)])
def test_same_padding(size, kernel, stride):
    before, after = same_padding(size, kernel, stride)
    assert 0 <= after - before <= 1
    assert (size + before + after - kernel) // stride + 1 == -(-size // stride)
