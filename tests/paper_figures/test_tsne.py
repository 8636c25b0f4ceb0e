import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_score
from torch import nn

from tnlpad.paper_figures import tsne
from tnlpad.paper_figures.tsne import Shown, _views, compute, configurations, neighbours_accuracy, scores
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import prepare_data
from tnlpad.runs.run import run

SHOWN = Shown(dataset="digits", noises=("pairflip:0.4",), epochs=(1, 3), settings={"epochs": 4, "milestones": "3"})


def test_seed_protocol_and_settings_are_those_of_the_runs():
    for config in configurations(replace(SHOWN, seed=5, protocol="authors"), "cpu"):
        assert (config.seed, config.protocol, config.epochs, config.precision) == (5, "authors", 4, "float32")
    assert all(config.precision == "bfloat16" for config in configurations(SHOWN, "cuda"))


def test_epochs_must_exist(tmp_path):
    for epochs in ((), (0,), (5,)):
        with pytest.raises(ValueError, match="from 1 to 4"):
            compute(tmp_path, replace(SHOWN, epochs=epochs))
    assert not list(tmp_path.iterdir())


def test_a_run_must_come_to_its_epochs():
    with pytest.raises(ValueError, match="patience=2"):
        configurations(replace(SHOWN, settings={**SHOWN.settings, "patience": 2}), "cpu")


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(1)

    def features(self, images):
        return self.norm(images).flatten(1)

    def forward(self, images):
        return self.features(images)


def test_sigma_is_shown_with_statistics_of_its_own_where_there_are_any():
    config = configure("digits", noise="pairflip:0.4", settings={"batch_size": 256})
    device = torch.device("cpu")
    data = prepare_data(config, None, device)
    network = Normed()
    method = SimpleNamespace(judged={"sigma": lambda: nullcontext(network), "w": lambda: nullcontext(network)})
    views = _views(config, method, data, device)
    assert set(views) == {"sigma", "sigma_reestimated"}
    before = network.norm.running_mean.clone(), network.norm.running_var.clone()
    with views["sigma_reestimated"]() as held:
        assert held is network
        estimated = held.norm.running_mean.item(), held.norm.running_var.item()
    pixels = data.train[torch.from_numpy(data.parts.train)].double() / 255
    mean, std = data.normalisation.mean[0], data.normalisation.std[0]
    expected = (pixels - mean) / std
    assert estimated == pytest.approx((expected.mean().item(), expected.var().item()), abs=0.02)
    assert (network.norm.running_mean, network.norm.running_var) == before


def test_a_method_without_sigma_is_shown_by_w():
    method = SimpleNamespace(judged={"w": lambda: nullcontext(nn.Identity())})
    assert set(_views(configure("digits", method="standard"), method, None, torch.device("cpu"))) == {"w"}


def test_neighbours_vote_without_the_sample_itself():
    places = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [10.2]])
    assert neighbours_accuracy(places, np.array([0, 0, 0, 1, 1, 1]), count=2) == 1
    # The first and the fourth are outvoted; between equals the lower class wins, which two others lose by.
    assert neighbours_accuracy(places, np.array([1, 0, 0, 0, 1, 1]), count=2) == pytest.approx(2 / 6)


def test_neighbours_accuracy_by_hand():
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(80, 5)), generator.integers(0, 3, 80)
    features += 1.5 * labels[:, None]
    right = 0
    for k in range(80):
        distances = np.linalg.norm(features - features[k], axis=1)
        distances[k] = np.inf
        right += np.bincount(labels[distances.argsort()[:10]], minlength=3).argmax() == labels[k]
    assert neighbours_accuracy(features, labels) == pytest.approx(right / 80)
    assert scores(features, labels)["silhouette"] == round(float(silhouette_score(features, labels)), 4)


SAMPLES = 60


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return out, json.loads(compute(out, SHOWN, samples=SAMPLES).read_bytes())


def test_a_panel_for_each_method_and_epoch(computed):
    _, document = computed
    names = [(panel["method"], panel["view"], panel["epoch"]) for panel in document["panels"]]
    assert names == [("standard", "w", 1), ("standard", "w", 3), ("tnlpad", "sigma", 1), ("tnlpad", "sigma", 3)]
    assert document["class_names"] == [str(k) for k in range(10)]
    assert document["test_images"] == 360
    assert len(document["labels"]) == 60
    assert set(document["labels"]) <= set(range(10))
    for panel in document["panels"]:
        assert len(panel["positions"]) == 60
        assert all(round(x, 3) == x and round(y, 3) == y for x, y in panel["positions"])
        assert -1 <= panel["silhouette"] <= 1
        assert 0 <= panel["neighbours_accuracy"] <= 1
        assert panel["run_id"] in document["runs"]
    commands = [each["command"] for each in document["runs"].values()]
    assert all(line.startswith("tnlpad train digits --noise pairflip:0.4") for line in commands)
    said = {name: document[name] for name in ("seed", "protocol", "settings")}
    assert said == {"seed": 1, "protocol": "paper", "settings": {"epochs": 4, "milestones": [3]}}


def test_the_networks_are_those_of_the_ordinary_run(computed, tmp_path):
    _, document = computed
    for method, view in (("standard", "w"), ("tnlpad", "sigma")):
        config = configure("digits", noise="pairflip:0.4", method=method, settings=SHOWN.settings)
        assert config.run_id in document["runs"]
        history = run(config, tmp_path).epochs()
        for panel in document["panels"]:
            if panel["method"] == method:
                assert panel["test_accuracy"] == history[panel["epoch"] - 1]["judged"][view]["test_accuracy"]


def test_nothing_finished_is_computed_again(computed, monkeypatch):
    out, document = computed
    monkeypatch.setattr(tsne, "run", None)
    monkeypatch.setattr(tsne, "_positions", None)
    assert json.loads(compute(out, SHOWN, samples=SAMPLES).read_bytes()) == document
    assert not list(out.rglob("checkpoint.pt"))


def test_a_picture_that_is_missing_is_made_from_the_features_that_are_there(computed, monkeypatch):
    out, document = computed
    monkeypatch.setattr(tsne, "run", None)
    (missing,) = out.glob("tsne/*standard*/panel-3-*.json")
    missing.unlink()
    told = []
    again = json.loads(compute(out, SHOWN, samples=SAMPLES, tell=told.append).read_bytes())
    assert told == ["digits pairflip:0.4 standard: t-SNE of w at epoch 3"]
    for name in ("silhouette", "neighbours_accuracy", "test_accuracy"):
        assert again["panels"][1][name] == document["panels"][1][name]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("place", ["before the features of epoch 3", "after those of epoch 1"])
def test_a_killed_computation_goes_on(computed, tmp_path, monkeypatch, place):
    _, document = computed
    snapshot, count = tsne._snapshot, []

    def interrupted(*arguments):
        count.append(None)
        if len(count) == 2:
            raise Killed
        return snapshot(*arguments)

    tell = None if "before" in place else lambda told: killed_in(told, "epoch 2 of 3")
    monkeypatch.setattr(tsne, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(tsne, "_positions", lambda places, seed: [[0.0, 0.0]] * len(places))  # takes longest
    monkeypatch.setattr(tsne, "_snapshot", interrupted if "before" in place else snapshot)
    with pytest.raises(Killed):
        compute(tmp_path, SHOWN, samples=SAMPLES, tell=tell)
    assert not (tmp_path / "tsne.json").exists()
    monkeypatch.setattr(tsne, "_snapshot", snapshot)
    told = []
    again = json.loads(compute(tmp_path, SHOWN, samples=SAMPLES, tell=told.append).read_bytes())
    assert [panel["test_accuracy"] for panel in again["panels"]] == [p["test_accuracy"] for p in document["panels"]]
    # The checkpoint lies behind epoch 3 in the one case, so it starts anew, and after epoch 2 in the other.
    first = next(line for line in told if "standard" in line)
    assert first.endswith("epoch 1 of 3" if "before" in place else "epoch 3 of 3")


def killed_in(told, epoch):
    if told.endswith(epoch):
        raise Killed


def test_a_run_is_not_mistaken_for_a_finished_one(computed):
    out, _ = computed
    assert not list(out.rglob("summary.json"))
    assert not (out / "tsne" / "config.json").exists()


def test_a_single_sample_is_no_picture(computed):
    out, _ = computed
    with pytest.raises(ValueError, match="samples=1"):
        compute(out, SHOWN, samples=1)
