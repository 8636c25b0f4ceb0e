import hashlib

import pytest
import torch

from tests.experiments.prepare.file_trees import CLASSES, CPU, small
from tnlpad.core.decomposition import Decomposition
from tnlpad.data.errors import DataError
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import network as module
from tnlpad.experiments.prepare import prepare_data, prepare_method
from tnlpad.experiments.prepare.network import _require_fit, build_network
from tnlpad.experiments.run import run
from tnlpad.networks import build


def write_weights(root, network):
    folder = root / "weights"
    folder.mkdir(exist_ok=True)
    torch.save(network.state_dict(), folder / "some.pth")
    digest = hashlib.sha256((folder / "some.pth").read_bytes()).hexdigest()
    return (folder / "some.pth").rename(folder / f"some-{digest[:8]}.pth")


def other_network(num_classes=5):
    with torch.random.fork_rng():
        return build("small_cnn", num_classes=num_classes, in_channels=3)


def prepared(config, root):
    data = prepare_data(config, root, CPU)
    return prepare_method(config, data, torch.Generator(), CPU, root)


def test_a_run_begins_with_the_weights_of_the_file(root, tmp_path):
    source = other_network()
    file = write_weights(root, source)
    method = prepared(small(pretrained=file.name), root)
    state = method.network.state_dict()
    for key, value in source.state_dict().items():
        if key.startswith("classifier."):
            assert len(state[key]) == len(CLASSES)
        else:
            assert torch.equal(state[key], value)
    (optimizer,) = method.optimizers
    assert isinstance(optimizer, Decomposition)
    assert optimizer.norms()["gamma"] == 0
    assert run(small(pretrained=file.name), tmp_path / "runs", root=root).finished


def test_two_networks_begin_alike_but_for_their_last_layers(root):
    method = prepared(small("coteaching", pretrained=write_weights(root, other_network()).name), root)
    first, second = (network.state_dict() for network in method.peers.networks)
    different = {key for key in first if not torch.equal(first[key], second[key])}
    assert different == {"classifier.weight", "classifier.bias"}


def test_a_file_for_the_same_classes_is_taken_whole(root):
    source = other_network(num_classes=3)
    method = prepared(small("standard", pretrained=write_weights(root, source).name), root)
    assert all(torch.equal(value, source.state_dict()[key]) for key, value in method.network.state_dict().items())


def wrong_digest(file):
    return file.rename(file.with_name("some-00000000.pth"))


def garbage(file):
    content = b"no weights"
    file.write_bytes(content)
    return file.rename(file.with_name(f"some-{hashlib.sha256(content).hexdigest()[:8]}.pth"))


def of_another_network(file):
    with torch.random.fork_rng():
        return write_weights(file.parent.parent, build("lenet"))


def missing(file):
    file.unlink()
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_digest, "does not begin with the 00000000 of its name"),
        (garbage, "is damaged, or holds more than tensors"),
        (of_another_network, "belongs to another network"),
        (missing, r"weights.some-\w+\.pth is missing, .* or train from scratch with --set pretrained=none"),
    ],
)
def test_a_file_that_is_not_the_one_leaves_no_trace(root, tmp_path, change, message):
    name = change(write_weights(root, other_network())).name
    with pytest.raises(DataError, match=message):
        run(small(pretrained=name), tmp_path / "runs", root=root)
    assert not (tmp_path / "runs").exists()


def test_a_second_random_draw_does_not_go_with_weights(root, tmp_path):
    name = write_weights(root, other_network()).name
    with pytest.raises(ValueError, match="standard_2x adds a second random draw"):
        run(small("standard_2x", pretrained=name), tmp_path, root=root)


def test_a_network_that_cannot_take_the_images():
    with torch.random.fork_rng():
        network = torch.nn.Conv2d(1, 1, 9)
    with pytest.raises(ValueError, match=r"conv9 cannot take images of 1 × 8 × 8 .*another network"):
        _require_fit("conv9", network, torch.zeros(1, 1, 8, 8))


def test_every_network_is_tried_on_an_image(monkeypatch):
    monkeypatch.setattr(module, "build_network", lambda *_: torch.nn.Conv2d(1, 1, 9))
    config = configure("digits")
    with pytest.raises(ValueError, match="small_cnn cannot take images of 1 × 8 × 8"):
        module.prepare_network(config, prepare_data(config, None, CPU), 0, CPU, None, None)


def test_a_trial_leaves_no_trace_in_the_network():
    network = torch.nn.BatchNorm2d(1)
    _require_fit("norm", network, torch.ones(1, 1, 8, 8))
    assert network.training
    assert (network.running_mean.item(), network.num_batches_tracked.item()) == (0.0, 0)


def test_weights_that_lie_elsewhere_must_be_those_that_were_meant(root, tmp_path):
    """Whatever the file is called there."""
    source, elsewhere = other_network(num_classes=3), tmp_path / "mine.pth"
    file = write_weights(root, source)
    file.rename(elsewhere)
    config = small("standard", pretrained=file.name)
    data = prepare_data(config, root, CPU)
    state = prepare_method(config, data, torch.Generator(), CPU, root, elsewhere).network.state_dict()
    assert all(torch.equal(state[key], value) for key, value in source.state_dict().items())
    torch.save(other_network(num_classes=3).state_dict() | {"classifier.bias": torch.ones(3)}, elsewhere)
    with pytest.raises(DataError, match=r"cannot begin with .*mine\.pth"):
        prepare_method(config, data, torch.Generator(), CPU, root, elsewhere)


@pytest.mark.parametrize("protocol", ["paper", "authors"])
def test_the_stem_is_that_of_the_protocol(protocol):
    config = configure("cifar10", protocol=protocol)
    with torch.random.fork_rng(), torch.device("meta"):
        network = build_network(config, (3, 32, 32), 10)
    first = next(module for module in network.modules() if isinstance(module, torch.nn.Conv2d))
    assert first.padding == (config.stem_padding,) * 2 == {"paper": (1, 1), "authors": (0, 0)}[protocol]
