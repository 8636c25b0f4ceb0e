import hashlib

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tnlpad import Decomposition, parameter_groups
from tnlpad.networks import build, lenet, load_pretrained
from tnlpad.networks.pretrained import (
    StandardisedLinear,
    fix_statistics,
    head_name,
    normalisation_in,
    standardise_features,
)
from tnlpad.networks.resnet import ImageNetResNet


def network(seed=0, **options):
    """One block per stage: the same keys, a third of the weights."""
    torch.manual_seed(seed)
    return ImageNetResNet((1, 1, 1, 1), **{"num_classes": 6, **options})


@pytest.fixture(scope="module")
def published():
    return network(seed=1).state_dict()


@pytest.fixture
def file(tmp_path, published):
    """A function that saves the published weights, with entries changed or (None) left out."""

    def save(name="weights.pth", **changes):
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        state = {key: value for key, value in (published | changes).items() if value is not None}
        torch.save(state, tmp_path / name)
        return tmp_path / name

    return save


def test_every_weight_arrives(file, published):
    model, path = network(), file()
    loaded = load_pretrained(model, path)
    assert all(torch.equal(value, published[key]) for key, value in model.state_dict().items())
    assert loaded.path == path
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (loaded.new_head, loaded.classes_in_file, loaded.hash_checked) == (False, 6, False)


def test_another_number_of_classes_keeps_the_models_own_head(file, published):
    model = network(num_classes=14)
    head = model.fc.weight.detach().clone()
    loaded = load_pretrained(model, file())
    assert (loaded.new_head, loaded.classes_in_file) == (True, 6)
    assert torch.equal(model.fc.weight, head)
    assert torch.equal(model.layer4[0].conv3.weight, published["layer4.0.conv3.weight"])
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 14)


def test_the_decomposition_starts_from_the_loaded_weights(file, published):
    model = network(num_classes=14)
    load_pretrained(model, file())
    optimizer = Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.1)
    optimizer.start_epoch()
    sigma = optimizer.sigma_state_dict(model)
    assert torch.equal(sigma["conv1.weight"], published["conv1.weight"])


def test_files_without_batch_counters_load(file, published):
    old = {key.replace(".", "__"): None for key in published if key.endswith("num_batches_tracked")}
    assert len(old) == 17
    model = network()
    load_pretrained(model, file(**old))
    assert torch.equal(model.bn1.weight, published["bn1.weight"])


@pytest.mark.parametrize(
    ("mean", "std", "usable"),
    [
        ("[0, 0.5, 1]", "[0.1, 1, 2]", True),
        ("[0, 0.5]", "[0.1, 1, 2]", False),
        ("[0, 0.5, 1]", "[0.1, 0, 2]", False),
        ("[0, 0.5, 1]", "[NaN, 1, 2]", False),
        ("[0, 1e999, 1]", "[0.1, 1, 2]", False),
        (f"[0, {'9' * 400}, 1]", "[0.1, 1, 2]", False),
        ("5", "[0.1, 1, 2]", False),
    ],
)
def test_the_normalisation_in_a_file(tmp_path, mean, std, usable):
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors", metadata={"mean": mean, "std": std})
    found = normalisation_in(tmp_path / "x.safetensors")
    assert found == (((0, 0.5, 1), (0.1, 1, 2)) if usable else None)


def test_safetensors(tmp_path, published):
    path, model = tmp_path / "weights.safetensors", network()
    save_file(published, path)
    load_pretrained(model, path)
    assert torch.equal(model.conv1.weight, published["conv1.weight"])


def test_a_network_whose_head_has_another_name(tmp_path):
    source, model = lenet(), lenet(num_classes=3)
    torch.save(source.state_dict(), tmp_path / "lenet.pt")
    assert load_pretrained(model, tmp_path / "lenet.pt", head="classifier").new_head
    assert torch.equal(model.body[0].weight, source.body[0].weight)
    with pytest.raises(ValueError, match="head='fc': LeNet has no such linear layer"):
        load_pretrained(model, tmp_path / "lenet.pt")


def test_the_hash_in_the_name_is_checked(file):
    path = file()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    right = path.rename(path.with_name(f"resnet50-{digest[:8]}.pth"))
    assert load_pretrained(network(), right).hash_checked
    wrong = right.rename(path.with_name("resnet50-0676ba61.pth"))
    with pytest.raises(ValueError, match=f"{digest}, which does not begin with the 0676ba61 of its name"):
        load_pretrained(network(), wrong)


def test_a_hash_can_be_asked_for(file):
    path = file()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_pretrained(network(), path, sha256=digest[:12].upper()).hash_checked
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, not the expected abcd"):
        load_pretrained(network(), path, sha256="abcd")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer1__0__conv2__weight": None}, r"weights.pth lacks layer1.0.conv2.weight\. The file belongs to another"),
        (
            {"conv1__weight": None, "module__conv1__weight": torch.zeros(1)},
            "lacks conv1.weight and has module.conv1.weight, which the model does not have",
        ),
        ({"layer1__1__bias": torch.zeros(1)}, "weights.pth has layer1.1.bias, which the model does not have"),
        (
            {"conv1__weight": torch.zeros(64, 1, 7, 7), "bn1__bias": torch.zeros(3)},
            r"conv1.weight has shape \(64, 1, 7, 7\) in weights.pth and \(64, 3, 7, 7\) in the model",
        ),
        ({"fc__weight": torch.zeros(6, 512)}, r"fc.weight has shape \(6, 512\) in weights.pth"),
        ({"fc__weight": None}, "lacks fc.weight"),
        ({"epoch": 90}, "holds a int under 'epoch', where a state dict holds tensors"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(file, changes, message):
    model = network()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        load_pretrained(model, file(**changes))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_files_that_are_no_weights(tmp_path):
    model = lenet()
    with pytest.raises(FileNotFoundError, match=r"missing\.pth is not a file"):
        load_pretrained(model, tmp_path / "missing.pth", head="classifier")
    for name, content in [("cut.pth", b"PK\x03\x04"), ("cut.safetensors", b"\x08")]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is damaged, or holds more than tensors"):
            load_pretrained(model, tmp_path / name, head="classifier")
    torch.save(model, tmp_path / "whole.pth")  # a pickled module could run anything when read
    with pytest.raises(ValueError, match="holds more than tensors: download it again, or save the state dict alone"):
        load_pretrained(model, tmp_path / "whole.pth", head="classifier")
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    with pytest.raises(ValueError, match=r"holds a list: save model.state_dict\(\)"):
        load_pretrained(model, tmp_path / "list.pth", head="classifier")
    (tmp_path / "weights.h5").write_bytes(b"")
    with pytest.raises(ValueError, match=r"weights come as \.pth, \.pt or \.safetensors"):
        load_pretrained(model, tmp_path / "weights.h5", head="classifier")


def test_large_features_are_standardised_by_the_last_layer():
    layer = StandardisedLinear(3, 2)
    features = torch.tensor([[100.0, 5.0, 1.0], [300.0, 5.0, 2.0], [200.0, 5.0, 3.0]])
    assert torch.equal(layer(features), torch.zeros(3, 2))
    layer.fit(features)
    torch.testing.assert_close(layer.mean, torch.tensor([200.0, 5.0, 2.0]))
    # Features that hardly vary, or not at all, are not blown up: 0.3 times the root mean square of 100, 0 and 1.
    torch.testing.assert_close(layer.std, torch.tensor([100.0, 17.3214, 17.3214]))
    layer.fit(torch.ones(4, 3))
    assert torch.equal(layer.std, torch.ones(3))


def test_statistics_stay_and_scales_are_trained():
    network = build("small_resnet", num_classes=3)
    fix_statistics(network)
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network(torch.rand(4, 3, 16, 16)).sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms
    assert not any(module.training for module in norms)
    assert all(module.weight.grad is not None for module in norms)
    assert network.training


def test_a_new_last_layer_is_kept_whatever_the_file_has(tmp_path):
    torch.manual_seed(0)
    saved = build("small_resnet", num_classes=3).state_dict()
    torch.save({name: value for name, value in saved.items() if not name.startswith("classifier.")}, tmp_path / "w.pth")
    torch.save(saved, tmp_path / "same.pth")
    for file, classes in (("w.pth", 0), ("same.pth", 3)):
        network = build("small_resnet", num_classes=3)
        standardise_features(network)
        assert head_name(network) == "classifier"
        loaded = load_pretrained(network, tmp_path / file, head="classifier", new_head=True)
        assert (loaded.new_head, loaded.classes_in_file) == (True, classes)
        assert not network.classifier.weight.any()
        first = next(iter(saved))
        assert torch.equal(network.state_dict()[first], saved[first])
    with pytest.raises(ValueError, match=r"lacks classifier\.weight"):
        load_pretrained(build("small_resnet", num_classes=3), tmp_path / "w.pth", head="classifier")
