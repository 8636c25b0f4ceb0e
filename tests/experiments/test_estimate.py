import json

import pytest

from benchmarks import step_times as generator
from tnlpad.experiments.config import configure
from tnlpad.experiments.estimate import paces, seconds_left, seconds_per_epoch, step_times
from tnlpad.experiments.reproduce import experiments, plan


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
    record(tmp_path, "other method", config(method="standard"), seconds=6000)
    record(tmp_path, "other precision", config(settings={"precision": "bfloat16"}), seconds=6000)
    record(tmp_path, "already read", config(), seconds=6000)
    pace = paces(tmp_path, [(config(seed=9), 6.0), (config(), None)], read={"already read"})
    assert seconds_left(config(), 0, pace, "cpu") == (60 * (2 + 4 + 6) / 3, "like runs")
    assert seconds_left(config(), 50, pace, "cpu") == (10 * 4, "like runs")


def test_damaged_records_say_nothing(tmp_path):
    record(tmp_path, "a", config(), seconds=60)
    record(tmp_path, "no epochs", config(), seconds=60, epochs=0)
    for name, content in (("cut", "{"), ("empty", "{}"), ("strange", '{"seconds": 3, "epochs_run": 2}')):
        record(tmp_path, name, config(), seconds=60)
        (tmp_path / name / "summary.json").write_text(content)
    assert list(paces(tmp_path, [], read=()).values()) == [1.0]
    assert paces(tmp_path / "nowhere", [], read=()) == {}
    assert seconds_per_epoch({}) is None


def test_recorded_steps_are_used_where_there_are_no_like_runs():
    times = step_times()["cuda"]
    wanted = {"network": "resnet18", "side": 32, "batch": 64}
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
        if each.config is not None
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
