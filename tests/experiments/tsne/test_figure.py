import json

import pytest

from tnlpad.experiments.config import configure
from tnlpad.experiments.run import run
from tnlpad.experiments.tsne import Shown, compute, features, panels

SHOWN = Shown(dataset="digits", noises=("pairflip:0.4",), epochs=(1, 3), settings={"epochs": 4, "milestones": "3"})
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
    monkeypatch.setattr(features, "run", None)
    monkeypatch.setattr(panels, "_positions", None)
    assert json.loads(compute(out, SHOWN, samples=SAMPLES).read_bytes()) == document
    assert not list(out.rglob("checkpoint.pt"))


def test_a_picture_that_is_missing_is_made_from_the_features_that_are_there(computed, monkeypatch):
    out, document = computed
    monkeypatch.setattr(features, "run", None)
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
    snapshot, count = features._snapshot, []

    def interrupted(*arguments):
        count.append(None)
        if len(count) == 2:
            raise Killed
        return snapshot(*arguments)

    tell = None if "before" in place else lambda told: killed_in(told, "epoch 2 of 3")
    monkeypatch.setattr(features, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(panels, "_positions", lambda places, seed: [[0.0, 0.0]] * len(places))  # takes longest
    monkeypatch.setattr(features, "_snapshot", interrupted if "before" in place else snapshot)
    with pytest.raises(Killed):
        compute(tmp_path, SHOWN, samples=SAMPLES, tell=tell)
    assert not (tmp_path / "tsne.json").exists()
    monkeypatch.setattr(features, "_snapshot", snapshot)
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
