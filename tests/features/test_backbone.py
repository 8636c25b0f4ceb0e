import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tnlpad.data.own.dataset import DataShape
from tnlpad.errors import DataError
from tnlpad.features import backbone as backbone_module
from tnlpad.features.backbone import input_side, lite, lite_is_installed, resolve_backbone, suits
from tnlpad.networks import build
from tnlpad.networks.efficientnet_lite import MEAN, STD

installed = pytest.mark.skipif(not lite_is_installed(), reason="the extra [photos] is not installed")


def shape(kind="files", channels=3, side=64, width=None):
    return DataShape(
        fingerprint="0" * 64,
        kind=kind,
        samples=100,
        validation=0,
        test=0,
        classes=2,
        channels=channels,
        height=side,
        width=width or side,
    )


@pytest.mark.parametrize(
    ("data", "suited"),
    [
        (shape(), True),
        (shape(side=500), True),
        (shape("images", side=32), True),
        (shape("images", side=28), False),
        (shape("images", side=300, width=20), False),
        (shape("files", channels=1), False),
        (shape("features", side=1), False),
        (shape("text", channels=1, side=1), False),
    ],
)
def test_photographs_that_it_suits(data, suited):
    assert suits(data) is suited


@pytest.mark.parametrize(
    ("side", "pixels"), [(32, 160), (64, 160), (160, 160), (161, 192), (192, 192), (200, 224), (224, 224), (3000, 224)]
)
def test_input_side(side, pixels):
    assert input_side(shape(side=side)) == pixels
    assert input_side(shape("images", side=2 * side, width=side)) == pixels


def test_none_is_no_backbone():
    resolved = resolve_backbone("none", shape())
    assert (resolved.backbone, resolved.sentence) == (None, "")


@installed
def test_auto_takes_lite_for_photographs_only():
    resolved = resolve_backbone("auto", shape())
    assert resolved.backbone.identity == "lite-57934424"
    assert "lite-57934424" in resolved.sentence
    assert "--backbone none" in resolved.sentence
    assert resolve_backbone("auto", shape("images", channels=1, side=8)).backbone is None


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(backbone_module, "LITE_PACKAGE", "no_such_package")
    resolved = resolve_backbone("auto", shape())
    assert resolved.backbone is None
    assert "tnlpad[photos]" in resolved.sentence
    assert resolve_backbone("auto", shape("features")).sentence == ""
    with pytest.raises(DataError, match=r"tnlpad\[photos\]"):
        resolve_backbone("lite", shape())


@installed
def test_lite_is_the_published_network():
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the extra [dev] is not installed")
    theirs = package.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(backbone_module._lite_file())
    ).eval()
    backbone = lite(96)
    images = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    normalised = (images - MEAN[0]) / STD[0]
    module = backbone.module()
    with torch.no_grad():
        wanted = theirs.extract_features(normalised).mean((2, 3))
        # Folding the normalisation reorders sums of hundreds of products.
        torch.testing.assert_close(module(images), wanted, rtol=1e-4, atol=1e-4)
    assert wanted.shape == (2, backbone.dimensions)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert not any("classifier" in name for name in module.state_dict())


@installed
def test_finding_the_package_does_not_run_it():
    import sys

    sys.modules.pop(backbone_module.LITE_PACKAGE, None)
    assert lite_is_installed()
    assert backbone_module.LITE_PACKAGE not in sys.modules


@installed
def test_damaged_weights_are_not_loaded(tmp_path, monkeypatch):
    copy = tmp_path / "weights.pth"
    shutil.copy(backbone_module._lite_file(), copy)
    with copy.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\0\1\2\3")
    monkeypatch.setattr(backbone_module, "_lite_file", lambda: copy)
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: pytest.fail("loaded before it was checked"))
    with pytest.raises(DataError, match="5793442"):
        resolve_backbone("lite", shape())


def weights_of(path: Path, name: str, **options) -> Path:
    torch.manual_seed(0)
    torch.save(build(name, **options).state_dict(), path)
    return path


def test_a_network_of_ours_with_weights(tmp_path):
    file = weights_of(tmp_path / "w.pth", "small_resnet", num_classes=7)
    backbone = resolve_backbone("small_resnet", shape(side=32), weights=file, mean=(0, 0, 0), std=(1, 1, 1)).backbone
    assert (backbone.name, backbone.pixels, backbone.dimensions) == ("small_resnet", 32, 128)
    assert backbone.identity.startswith("small_resnet-")
    torch.manual_seed(0)
    network = build("small_resnet", num_classes=7).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(backbone.module()(images), network.features(images))
    other = weights_of(tmp_path / "v.pth", "small_resnet", num_classes=8)
    assert resolve_backbone("small_resnet", shape(), weights=other).backbone.identity != backbone.identity


@pytest.mark.parametrize(
    ("word", "message"),
    [("resnet18", "--weights"), ("lit", "Did you mean lite"), ("resnet19", "Did you mean resnet18")],
)
def test_words_that_cannot_be_resolved(word, message):
    with pytest.raises(DataError, match=message):
        resolve_backbone(word, shape())


def test_weights_that_do_not_fit(tmp_path):
    file = weights_of(tmp_path / "w.pth", "small_resnet")
    with pytest.raises(DataError, match=r"resnet18 cannot take the weights of .*w\.pth"):
        resolve_backbone("resnet18", shape(), weights=file)
    with pytest.raises(DataError, match="no such file"):
        resolve_backbone("resnet18", shape(), weights=tmp_path / "missing.pth")


def test_data_that_are_no_pictures():
    with pytest.raises(DataError, match="kind features"):
        resolve_backbone("lite", shape("features"))


@installed
def test_features_tell_photographs_from_noise():
    # Different pictures get different features, and a shift by a few pixels changes them little.
    generator = np.random.default_rng(0)
    smooth = np.kron(generator.random((3, 5, 5)), np.ones((32, 32)))[:, :130, :130]
    noise = generator.random((3, 128, 128))
    batch = np.stack([smooth[:, :128, :128], smooth[:, 2:130, 2:130], noise]).astype(np.float32)
    with torch.no_grad():
        a, b, c = lite(128).module()(torch.from_numpy(batch))
    assert (a - b).norm() < 0.5 * (a - c).norm()
