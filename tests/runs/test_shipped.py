import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.edited_runs import without_checksums
from tests.methods.problems import EARLY
from tests.runs.test_own_data import blobs
from tests.runs.test_run import small
from tnlpad.data.catalogue import find
from tnlpad.data.own import open_dataset
from tnlpad.methods import METHODS, Entry
from tnlpad.methods.standard import Standard, StandardConfig
from tnlpad.records.store import RecordError
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import prepare_data
from tnlpad.runs.run import run
from tnlpad.runs.shipped import load_shipped


@pytest.fixture
def folder(tmp_path):
    return run(small(), tmp_path)


def test_all_that_is_needed_to_use_it(folder):
    shipped, info = load_shipped(folder), find("digits")
    assert not shipped.network.training
    assert (shipped.config, shipped.class_names, shipped.columns) == (small(), info.class_names, ())
    assert (shipped.shape, shipped.normalisation) == ((1, 8, 8), info.normalisation)
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.tensor(each) for each in (info.normalisation.mean, info.normalisation.std))
    with torch.no_grad():
        torch.testing.assert_close(shipped.network(images), shipped.network.network((images - mean) / std))


def assert_it_scores_as_the_record_says(folder):
    data = prepare_data(small(), None, torch.device("cpu"))
    with torch.no_grad():
        right = load_shipped(folder).network(data.test / 255).argmax(1) == data.test_labels
    judged = next(iter(folder.summary()["chosen"]["judged"].values()))
    assert right.double().mean().item() == pytest.approx(judged["test_accuracy"])


@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_one_that_the_run_judged(method, tmp_path):
    """One network, or the two of DivideMix as one."""
    assert_it_scores_as_the_record_says(run(small(method, epochs=2, **EARLY.get(method, {})), tmp_path))


class Boosted(nn.Module):
    """A network that learns, beside one that stays as it was drawn."""

    def __init__(self, network):
        super().__init__()
        self.learning, self.fixed = network(0), network(1)

    def forward(self, images):
        return self.learning(images) + self.fixed(images)


def boosted(config, setup):
    network = Boosted(setup.network)
    return Standard(network, torch.optim.SGD(network.learning.parameters(), **setup.sgd))


def test_anyone_s_method_may_ship_two_networks_as_one(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "boosted", Entry(StandardConfig, boosted, Boosted))
    assert_it_scores_as_the_record_says(run(small("boosted", epochs=2), tmp_path))


def test_features_are_known_by_name(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz"))
    shipped = load_shipped(run(configure(own.shape, settings={"epochs": 1}), tmp_path / "runs", own=own))
    assert shipped.columns == own.columns == tuple(f"column {number}" for number in range(4))
    assert shipped.shape == (4,)


def another_shape(path):
    save_file({name: torch.cat([value, value]) for name, value in load_file(path).items() if value.ndim}, path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        another_shape,
    ],
    ids=["lost", "empty", "cut off", "of another network"],
)
def test_weights_that_cannot_be_used_are_named(folder, damage):
    damage(folder.model_file)
    with pytest.raises(RecordError, match=r"model\.safetensors is (damaged|missing)"):
        load_shipped(folder)
    without_checksums(folder.path)
    with (
        pytest.warns(UserWarning, match="no checksums"),
        pytest.raises(RecordError, match=r"model\.safetensors cannot"),
    ):
        load_shipped(folder)
