import json
import math

import pytest

from benchmarks import step_times as generator
from tnlpad.grid.estimate import _steps_per_batch, paces, seconds_left, seconds_per_epoch, step_times
from tnlpad.grid.reproduce import experiments, plan
from tnlpad.runs.config import configure


def config(**words):
    return configure("digits", noise="symmetric:0.4", **words)


def record(out, name, run, seconds, epochs=60):
    folder = out / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    summary = {"config": run.to_json(), "epochs_run": epochs, "seconds": {"epochs": seconds}}
    (folder / "summary.json").write_text(json.dumps(summary))


def test_like_runs_say_how_long_it_takes(tmp_path):
    record(tmp_path, "a", config(seed=7), seconds=120)
    record(tmp_path, "b", config(seed=8, settings={"epochs": 30}), seconds=120, epochs=30)
    record(tmp_path, "other method", config(method="standard"), seconds=6000)  # not needed
    record(tmp_path, "other precision", config(settings={"precision": "bfloat16"}), seconds=6000)
    record(tmp_path, "already read", config(), seconds=6000)
    pace = paces(tmp_path, [(config(seed=9), 6.0), (config(), None)], read={"already read"})
    assert seconds_left(config(), 0, pace, "cpu") == (60 * (2 + 4 + 6) / 3, "like runs")
    assert seconds_left(config(), 50, pace, "cpu") == (10 * 4, "like runs")


def test_runs_that_differ_in_their_method_say_it_by_what_each_costs(tmp_path):
    record(tmp_path, "a", config(method="coteaching"), seconds=120)
    record(tmp_path, "b", config(method="cdr"), seconds=60)
    record(tmp_path, "other network", config(method="jocor", network="mlp"), seconds=6000)
    pace, costs = paces(tmp_path, [], read=()), step_times()["cpu"]["methods"]
    assert (costs["coteaching"], costs["cdr"], costs["tnlpad"], costs["jocor"]) == (2, 1, 1, 2)
    assert seconds_left(config(), 0, pace, "cpu") == (60, "like runs")
    assert seconds_left(config(method="jocor"), 0, pace, "cpu") == (120, "like runs")
    assert seconds_left(config(), 0, pace, "mps") == (None, None)  # whose costs nobody knows


def test_runs_that_share_a_gpu_take_what_was_measured_of_it(monkeypatch):
    """Two at once take as long as one alone; five at once half as much of the GPU each as one alone."""
    known = {"network": "resnet18", "channels": 3, "side": 32, "batch": 64, "classes": 10}
    steps = [known | {"step_ms": ms, "at_once": count} for count, ms in ((1, 2.0), (2, 1.0), (5, 1.0), (9, 0.8))]
    for device in ("cuda", "cpu"):
        monkeypatch.setitem(step_times(), device, {**step_times()[device], "steps": steps})
    run = configure("cifar10", noise="symmetric:0.4")
    alone, _ = seconds_left(run, 0, {}, "cuda")
    of_the_gpu = {count: seconds_left(run, 0, {}, "cuda", count)[0] / count / alone for count in (1, 2, 3, 5, 9, 20)}
    assert of_the_gpu == pytest.approx({1: 1.0, 2: 0.5, 3: 0.5, 5: 0.5, 9: 0.4, 20: 0.4})
    assert seconds_left(run, 0, {}, "cpu", 9) == seconds_left(run, 0, {}, "cpu")  # a core for each


def test_where_sharing_was_not_measured_nothing_is_gained_by_it():
    run = configure("cifar100", noise="symmetric:0.4")
    assert seconds_left(run, 0, {}, "cuda", 4)[0] == pytest.approx(4 * seconds_left(run, 0, {}, "cuda")[0])


def test_the_record_of_shared_gpus_is_used():
    packed = generator.record("training", "cuda")["packed"]["cifar10"]
    run = configure("cifar10", noise="symmetric:0.4")
    for measured in packed:
        seconds, _ = seconds_left(run, 0, {}, "cuda", measured["runs"])
        training = 100 * 45_000 / measured["images_per_second"] * measured["runs"]
        assert training < seconds < 1.3 * training  # and measuring


def test_damaged_records_say_nothing(tmp_path):
    record(tmp_path, "a", config(), seconds=60)
    record(tmp_path, "no epochs", config(), seconds=60, epochs=0)
    for name, content in (("cut", "{"), ("empty", "{}"), ("strange", '{"seconds": 3, "epochs_run": 2}')):
        record(tmp_path, name, config(), seconds=60)
        (tmp_path / name / "summary.json").write_text(content)
    assert list(paces(tmp_path, [], read=()).values()) == [1.0]
    assert paces(tmp_path / "nowhere", [], read=()) == {}
    assert seconds_per_epoch({}) is None


def test_dividemix_passes_over_its_labelled_samples():
    """By hand: 10 epochs of warm-up with one step for each batch, and 290 with 2·(1 − 0.2) = 1.6."""
    labelled = configure("cifar10", noise="symmetric:0.2", method="dividemix")
    every = configure("cifar10", noise="symmetric:0.2", method="dividemix", settings={"steps": "all"})
    assert (labelled.epochs, labelled.options["warmup_epochs"]) == (300, 10)
    assert _steps_per_batch(labelled) == pytest.approx((10 + 290 * 1.6) / 300)
    assert _steps_per_batch(every) == _steps_per_batch(config()) == 1
    seconds = [seconds_left(each, 0, {}, "cuda")[0] for each in (labelled, every)]
    assert 1.4 < seconds[0] / seconds[1] < 1.58  # measuring takes as long in both


def test_recorded_steps_are_used_where_there_are_no_like_runs():
    times = step_times()["cuda"]
    wanted = {"network": "resnet18", "side": 32, "batch": 64, "at_once": 1}
    (step,) = [each for each in times["steps"] if wanted.items() <= each.items()]
    run = configure("cifar10", noise="symmetric:0.4", method="standard")
    seconds, source = seconds_left(run, 0, {}, "cuda:1")
    training = 704 * step["step_ms"] / 1000  # 45,000 images in batches of 64
    assert source == "step times"
    assert 100 * training < seconds < 100 * training * 1.3  # and measuring
    two, _ = seconds_left(configure("cifar10", noise="symmetric:0.4", method="coteaching"), 0, {}, "cuda")
    assert two == pytest.approx(seconds * times["methods"]["coteaching"])
    half, _ = seconds_left(run, 50, {}, "cuda")
    assert half == pytest.approx(seconds / 2)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_run_of_the_paper_has_an_estimate(device):
    known = [
        seconds_left(each.config, 0, {}, device)
        for target in ("all", "smoke")
        for each in plan(experiments(target), seeds=[1], device=device)
    ]
    assert len(known) > 500
    assert {source for _, source in known} == {"step times"}
    assert all(seconds > 0 for seconds, _ in known)


def test_nothing_is_guessed_about_what_was_never_measured():
    other_batch = configure("cifar10", noise="symmetric:0.4", settings={"batch_size": 77})
    assert seconds_left(other_batch, 0, {}, "cpu") == (None, None)
    assert seconds_left(config(), 0, {}, "mps") == (None, None)


def test_the_step_times_are_what_the_records_give():
    assert generator.content() == generator.TARGET.read_text(), "run python -m benchmarks.step_times"


def test_photographs_are_decoded_in_every_epoch(monkeypatch):
    """By hand: 68,175 images of Food-101 to train on, and 7,575 + 25,250 + 5,000 to measure on."""
    monkeypatch.setattr("tnlpad.grid.estimate.available_cores", lambda: 4)
    monkeypatch.setitem(step_times(), "decoding", {"images_per_second_and_core": 100.0})
    run = configure("food101")
    images = 0.9 * 75_750 + 0.1 * 75_750 + 25_250 + 5000
    for device, decoding in (("cpu", images / 100), ("cuda", images / 400)):
        for step_ms in (0.001, 1000.0):
            known = {"network": run.network, "channels": 3, "side": 112, "batch": 32, "classes": 101, "at_once": 1}
            times = {
                **step_times()[device],
                "steps": [known | {"step_ms": step_ms}],
                "methods": {"tnlpad": 1, "standard": 1},
            }
            monkeypatch.setitem(step_times(), device, times)
            computing = (math.ceil(0.9 * 75_750 / 32) + (images - 0.9 * 75_750) / 32 / 3) * step_ms / 1000
            # A CPU core decodes and trains in turns; on a GPU both take place at once.
            expected = computing + decoding if device == "cpu" else max(computing, decoding)
            assert seconds_left(run, run.epochs - 1, {}, device)[0] == pytest.approx(expected, rel=1e-3)
    shared, alone = (seconds_left(run, run.epochs - 1, {}, "cuda", count)[0] for count in (2, 1))
    assert shared == pytest.approx(2 * alone)  # the runs share the cores
