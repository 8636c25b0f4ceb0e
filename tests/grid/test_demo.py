import json
from importlib import metadata

import numpy as np
import pytest
import torch

from tnlpad import __version__
from tnlpad.grid import demo
from tnlpad.grid.demo import DemoFailed, demo_record, demo_runs, run_demo, summary
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import prepare_data, prepare_loader, prepare_method

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "SETTINGS", {name: {**own, "epochs": 2} for name, own in demo.SETTINGS.items()})
        yield demo_runs((1, 2))


@pytest.fixture(scope="module")
def folder(short, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    run_demo(short, out)
    return out


def test_the_runs_are_ordinary_ones_on_digits_with_40_percent_noise():
    runs = demo_runs(range(1, 6))
    assert [len(configs) for configs in runs.values()] == [5, 5]
    assert runs["standard"][2] == configure("digits", noise="symmetric:0.4", method="standard", seed=3)
    own = {"init": "zero", "c2": 2.0}
    assert runs["tnlpad"][2] == configure("digits", noise="symmetric:0.4", method="tnlpad", seed=3, settings=own)


def test_both_methods_start_from_the_same_network_and_see_the_same_batches():
    weights, order = [], []
    for config in (configs[0] for configs in demo_runs((1,)).values()):
        data = prepare_data(config, None, CPU)
        loader, streams = prepare_loader(config, data, CPU)
        method = prepare_method(config, data, streams["method"], CPU)
        with method.judged["w"]() as network:
            weights.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]).clone())
        order.append(torch.cat([batch.index for batch in loader]))
    assert torch.equal(*weights)
    assert torch.equal(*order)


def test_sigma_memorises_less_and_reads_better_than_plain_training(tmp_path):
    runs = demo_runs((1,))
    run_demo(runs, tmp_path)
    last = {name: method["curves"][0] for name, method in demo_record(runs, tmp_path, "")["methods"].items()}
    test, memorised = ({name: curves[key][-1] for name, curves in last.items()} for key in ("test", "memorised"))
    assert test["sigma"] > test["plain"] + 0.05
    assert memorised["sigma"] < 0.7 * min(memorised["plain"], memorised["w"])
    assert memorised["plain"] > 0.5  # or there would be nothing to show


def test_progress_counts_the_runs_and_finished_ones_are_not_repeated(short, folder, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.run.prepare_data", lambda *_: pytest.fail("repeated"))
    steps = []
    run_demo(short, folder, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 4) for done in range(5)]


def test_processes_give_the_same_numbers(short, folder, tmp_path):
    run_demo(short, tmp_path, workers=2)
    records = [demo_record(short, each, "") for each in (folder, tmp_path)]
    assert records[0]["methods"] == records[1]["methods"]


def test_a_run_that_fails_ends_the_demo(short, tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.run.train", lambda *_, **__: 1 / 0)
    with pytest.raises(DemoFailed, match=r"digits_.*failed: .*ZeroDivisionError.*traceback: "):
        run_demo(short, tmp_path)


def test_the_record_is_plain_json_and_complete(short, folder):
    document = demo_record(short, folder, "tnlpad demo")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document["methods"]) == ["plain", "w", "sigma"]
    for method in document["methods"].values():
        assert len(method["curves"]) == 2
        for curves in method["curves"]:
            assert {name: len(values) for name, values in curves.items()} == dict.fromkeys(
                ("test", "validation", "memorised"), 2
            )
            assert all(0 <= share <= 1 for values in curves.values() for share in values)
    assert document["configuration"] == {
        "seeds": [1, 2],
        "noise_rate": 0.4,
        "train_size": 1293,
        "validation_size": 144,
        "epochs": 2,
        "batch_size": 64,
        "learning_rate": 0.01,
        "learning_rate_drop": 0.1,
        "momentum": 0.9,
        "weight_decay": 0.001,
        "c1": 0.0001,
        "c2": 2.0,
    }
    assert document["test_size"] == 360
    assert document["versions"]["torch"] == metadata.version("torch")
    assert document["versions"]["tnlpad"] == __version__
    assert len(document["runs"]) == 4
    assert "tnlpad train digits --noise symmetric:0.4 --method standard --seed 2 --set epochs=2" in (
        document["runs"].values()
    )


def test_the_record_agrees_with_those_of_the_runs(short, folder):
    methods = demo_record(short, folder, "")["methods"]
    for name, method in (("plain", "standard"), ("sigma", "tnlpad")):
        found = [RunFolder(folder / config.run_id).summary() for config in short[method]]
        assert methods[name]["chosen_epochs"] == [each["chosen"]["epoch"] for each in found]
        for key, when in (("test_chosen_epoch", "chosen"), ("test_last_epoch", "last")):
            assert methods[name][key]["values"] == [each[when]["test_accuracy"] for each in found]


def epochs(test, validation, memorised):
    return [
        {"judged": {"w": {"test_accuracy": a, "validation_accuracy": b, "memorised": c}}}
        for a, b, c in zip(test, validation, memorised, strict=True)
    ]


def test_the_chosen_epoch_is_the_first_best_on_validation():
    found = demo._method_record([epochs((0.1, 0.2, 0.9, 0.4), (0.2, 0.5, 0.3, 0.5), (0, 0, 0, 0.7))], "w")
    assert found["chosen_epochs"] == [2]
    assert found["test_chosen_epoch"]["mean"] == 0.2
    assert (found["test_last_epoch"]["mean"], found["memorised_last_epoch"]["mean"]) == (0.4, 0.7)


def test_the_gain_by_hand():
    gain = demo._gain(summary([0.6, 0.7]), summary([0.8, 0.9]))
    assert gain["test_last_epoch"] == pytest.approx(0.2)
    assert gain["combined_sd"] == pytest.approx(np.sqrt(2) * np.std([0.6, 0.7], ddof=1))
    assert demo._gain(summary([0.6]), summary([0.8]))["combined_sd"] is None


def test_summary_agrees_with_numpy():
    values = [0.2, 0.5, 0.9]
    result = summary(values)
    assert (result["mean"], result["sd"]) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert result["n"] == 3
    assert summary([0.5])["sd"] is None
