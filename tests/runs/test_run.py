import builtins
import dataclasses
import functools
import json
import os
import platform
import random
import signal
import threading
import time
from contextlib import nullcontext
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch._inductor import config as inductor

import tnlpad
import tnlpad.atomic_files as atomic_files
import tnlpad.runs.run as running
from tests.methods.problems import EARLY
from tnlpad.data import load
from tnlpad.methods import METHODS
from tnlpad.networks import build
from tnlpad.records.scores import read_scores
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.rng import torch_stream
from tnlpad.runs import run as module
from tnlpad.runs.config import command, configure
from tnlpad.runs.devices import available_cores
from tnlpad.runs.run import compiling, run
from tnlpad.training.loop import Diverged, Schedule
from tnlpad.training.measure import evaluate


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """As in a process that has compiled nothing, with a cache of its own."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "not yet"))
    monkeypatch.setattr(module, "_compiled_for", ())
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(1))
    return resets


def digits(seed=1, **settings):
    return configure("digits", noise="symmetric:0.4", seed=seed, settings={"compiled": True, **settings})


def test_a_run_of_the_same_kind_takes_the_code_over_and_another_one_starts_anew(alone):
    with compiling(digits()):
        pass
    before = len(alone)
    with compiling(digits(seed=2)):
        pass
    with compiling(digits(compiled=False)):  # compiles nothing, and takes nothing away
        pass
    with compiling(digits(seed=3)):
        pass
    assert len(alone) == before
    with compiling(digits(batch_size=16)):
        pass
    assert len(alone) == before + 1


@inductor.patch(compile_threads=1)
def test_the_first_compiles_on_all_cores_and_the_others_wait_for_it():
    begun, entered = threading.Event(), threading.Event()

    def follow():
        module._compiled_for = ()  # another process knows nothing of this one's code
        begun.set()
        with compiling(digits(seed=2)) as compiled:
            entered.set()
            compiled()

    follower = threading.Thread(target=follow)
    with compiling(digits()) as compiled:
        assert inductor.compile_threads == available_cores()
        follower.start()
        assert begun.wait(10)
        assert not entered.wait(0.3)
        compiled()
        assert entered.wait(10)
        follower.join()
    assert inductor.compile_threads == 1


def test_who_fails_while_compiling_lets_the_others_begin(monkeypatch):
    with pytest.raises(RuntimeError, match="no compiler"), compiling(digits()):
        raise RuntimeError("no compiler")
    monkeypatch.setattr(module, "_compiled_for", ())
    with compiling(digits(seed=2)) as compiled:
        compiled()


NOISE = "symmetric:0.4"


def small(method="tnlpad", **settings):
    """Digits for three epochs: a tenth of a second."""
    return configure("digits", noise=NOISE, method=method, settings={"epochs": 3, "batch_size": 256, **settings})


def without_times(tree):
    """A record less what differs between two runs of the same configuration."""
    if isinstance(tree, dict):
        return {key: without_times(value) for key, value in tree.items() if key != "seconds"}
    return [without_times(value) for value in tree] if isinstance(tree, list) else tree


def content(folder):
    """Everything a run leaves that must not depend on when and how often it was interrupted."""
    weights = {name: value.numpy().tobytes() for name, value in sorted(load_file(folder.model_file).items())}
    with safe_open(folder.model_file, "pt") as file:
        about = file.metadata()
    return without_times([folder.config(), folder.epochs(), folder.summary()]), weights, about


class Stop(Exception):
    """What a kill looks like from within."""


def stop_after(epoch):
    def on_epoch(record):
        if record["epoch"] == epoch:
            raise Stop

    return on_epoch


@pytest.fixture(autouse=True)
def generators_are_left_alone():
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    yield
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


def test_the_same_configuration_gives_the_same_record(tmp_path):
    first = run(small(), tmp_path / "a")
    assert content(run(small(), tmp_path / "b")) == content(first)
    other = run(configure("digits", noise=NOISE, seed=2, settings={"epochs": 3, "batch_size": 256}), tmp_path / "a")
    assert other.epochs()[0]["train_loss"] != first.epochs()[0]["train_loss"]


def test_a_finished_run_is_left_as_it_is(tmp_path, monkeypatch):
    folder = run(small(), tmp_path)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.path.iterdir()}
    monkeypatch.setattr(running, "prepare_data", lambda *_: pytest.fail("repeated"))
    run(small(), tmp_path)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.path.iterdir()} == before


@pytest.mark.parametrize("method", METHODS)
def test_every_method_leaves_a_complete_record(method, tmp_path):
    """And goes on after a stop as if there had been none."""
    # SELF might end sooner if its first filter came after a single epoch.
    filtering = {"first_share": 0.7} if method.startswith("self") else {}
    config = small(method, **filtering, **EARLY.get(method, {}))
    whole = run(config, tmp_path / "whole")
    summary, epochs = whole.summary(), whole.epochs()
    assert [record["epoch"] for record in epochs] == [1, 2, 3]
    for record in epochs:
        for judged in record["judged"].values():
            assert judged.keys() == {
                "validation_accuracy",
                "validation_loss",
                "test_accuracy",
                "test_loss",
                "memorised",
            }
            assert all(0 <= judged[name] <= 1 for name in judged if "loss" not in name)
        assert record["norms"]["gradient"] > 0
    views = ({"w"}, {"sigma", "w"}, {"first", "second"}, {"teacher", "student"}, {"both"})
    assert set(epochs[0]["judged"]) in views
    if method == "tnlpad":
        assert epochs[0]["norms"].keys() == {"gradient", "sigma", "gamma", "drift", "averaged_gradient"}
    assert bool(epochs[0]["selection"]) == (method not in ("standard", "standard_2x", "adacorr", "cdr", "tnlpad"))
    assert summary["run_id"] == whole.path.name
    assert summary["chosen"]["test_accuracy"] == epochs[summary["chosen"]["epoch"] - 1]["test_accuracy"]
    assert summary["samples"] == {"train": 1293, "validation": 144, "test": 360}
    assert summary["stopped"] == "at the last epoch"
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    for epoch in (1, 2):
        with pytest.raises(Stop):
            run(config, tmp_path / f"stopped-{epoch}", on_epoch=stop_after(epoch))
        assert content(run(config, tmp_path / f"stopped-{epoch}")) == content(whole)


def test_a_method_may_end_a_run(tmp_path):
    """SELF, whose only iteration gets no better."""
    folder = run(small("self", iterations=1, iteration_patience=1, learning_rate=1e-12), tmp_path)
    assert (folder.summary()["epochs_run"], folder.summary()["stopped"]) == (2, "by the method")


@pytest.mark.parametrize("method", ["standard", "coteaching", "tnlpad"])
def test_the_model_is_the_judged_network_of_the_chosen_epoch(method, tmp_path):
    folder = run(small(method), tmp_path)
    with torch.random.fork_rng():
        network = build("small_cnn", num_classes=10, in_channels=1)
    network.load_state_dict(load_file(folder.model_file))
    chosen = folder.summary()["chosen"]
    name = next(iter(chosen["judged"]))
    with safe_open(folder.model_file, "pt") as file:
        assert file.metadata() == {"epoch": str(chosen["epoch"]), "weights": name}
    assert name == {"standard": "w", "coteaching": "first", "tnlpad": "sigma"}[method]
    test = load("digits", split="test")
    config = small(method)
    data = running.prepare_data(config, None, torch.device("cpu"))
    samples = running.prepare_sets(config, data, torch.device("cpu")).test
    assert samples.labels.tolist() == test.labels.tolist()
    measured = evaluate(network, samples)
    assert measured.accuracy.item() == chosen["judged"][name]["test_accuracy"]
    assert measured.loss.item() == chosen["judged"][name]["test_loss"]


def test_the_test_set_never_chooses(tmp_path, monkeypatch):
    honest = run(small(), tmp_path / "a")

    def shuffled(name, root, split, resize=None):
        dataset = load(name, root, split)
        if split == "test":
            dataset.labels[:] = np.random.default_rng(0).permutation(dataset.labels)
        return dataset

    monkeypatch.setattr("tnlpad.runs.prepare.load", shuffled)
    fooled = run(small(), tmp_path / "b")
    numbers = [[record["test_accuracy"] for record in folder.epochs()] for folder in (honest, fooled)]
    assert numbers[0] != numbers[1]

    def without_test(tree):
        if isinstance(tree, dict):
            return {key: without_test(value) for key, value in tree.items() if not key.startswith("test_")}
        return [without_test(value) for value in tree] if isinstance(tree, (list, tuple)) else tree

    assert without_test(content(honest)) == without_test(content(fooled))


def test_methods_of_one_seed_see_the_same_labels_and_batches(tmp_path):
    parts = []
    for method in ("standard", "coteaching"):
        data = running.prepare_data(small(method), None, torch.device("cpu"))
        loader, _ = running.prepare_loader(small(method), data, torch.device("cpu"))
        parts.append((data.given, torch.from_numpy(data.parts.train), next(iter(loader)).index))
    assert all(torch.equal(a, b) for a, b in zip(*parts, strict=True))


def ended(*accuracies):
    """Epochs with these noisy validation accuracies; test accuracies run the other way."""
    return [
        {
            "epoch": epoch,
            "validation_accuracy": accuracy,
            "test_accuracy": 1 - accuracy,
            "judged": {"w": {"epoch": epoch}},
            "seconds": {"training": 2.0, "measuring": 0.5},
        }
        for epoch, accuracy in enumerate(accuracies, start=1)
    ]


@pytest.mark.parametrize(("epochs", "stopped"), [(3, "at the last epoch"), (4, "by patience")])
def test_the_summary_by_hand(epochs, stopped):
    config, device = small("standard", epochs=epochs, patience=9), torch.device("cpu")
    data = running.prepare_data(config, None, device)
    method = running.prepare_method(config, data, torch.Generator(), device)
    summary = running._summary(config, method, ended(0.25, 0.75, 0.5), data, device, 7.0)
    assert summary["chosen"] == {
        "epoch": 2,
        "validation_accuracy": 0.75,
        "test_accuracy": 0.25,
        "judged": {"w": {"epoch": 2}},
    }
    assert (summary["last"]["epoch"], summary["last"]["test_accuracy"]) == (3, 0.5)
    assert (summary["epochs_run"], summary["stopped"]) == (3, stopped)
    assert summary["seconds"] == {"this_process": 7.0, "epochs": 7.5}
    assert summary["wrong_labels"] == pytest.approx((data.noisy.given != data.noisy.clean).mean())
    assert 0.35 < summary["wrong_labels"] < 0.45
    assert summary["settings"] == {"epochs": epochs, "batch_size": 256, "patience": 9}
    assert summary["command"] == command(config)
    assert summary["machine"] == platform.machine()
    assert summary["versions"] == {
        "tnlpad": tnlpad.__version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": np.__version__,
    }


def test_the_machine_is_the_gpu_that_it_ran_on(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"GPU {device}")
    properties = SimpleNamespace(multi_processor_count=40)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: properties)
    config, cpu = small("standard"), torch.device("cpu")
    data = running.prepare_data(config, None, cpu)
    method = running.prepare_method(config, data, torch.Generator(), cpu)
    gpu = torch.device("cuda:1")
    summary = running._summary(config, method, ended(0.5), data, gpu, 1.0)
    assert (summary["machine"], summary["processors"]) == ("GPU cuda:1", 40)


def test_the_rule_of_selection_says_by_which_labels():
    config, device = small("standard"), torch.device("cpu")
    method = running.prepare_method(config, running.prepare_data(config, None, device), torch.Generator(), device)
    clean = dataclasses.replace(config, validation="clean")
    rules = [running._selection(each, method) for each in (config, clean)]
    assert rules == [f"first epoch of the highest {kind} validation accuracy" for kind in ("noisy", "clean")]


def test_the_schedule_is_that_of_the_settings():
    settings = {"epochs": 9, "learning_rate": 0.5, "milestones": "2,4", "decay": 0.3}
    schedule = running._schedule(small(**settings, decay_takes_effect="after", patience=5))
    expected = Schedule(
        epochs=9, learning_rate=0.5, milestones=(2, 4), decay=0.3, decay_takes_effect="after", patience=5
    )
    assert schedule == expected


def test_what_training_is_told(tmp_path, monkeypatch):
    """Streams that are saved are those that batches and method draw from; convolutions add up in one order."""
    told, train = {}, running.train

    def watched(method, loader, sets, schedule, **options):
        cudnn = torch.backends.cudnn
        told.update(options, method=method, loader=loader, cudnn=(cudnn.deterministic, cudnn.allow_tf32))
        told["global"] = torch.get_rng_state()
        return train(method, loader, sets, schedule, **options)

    monkeypatch.setattr(running, "train", watched)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    config = configure("digits", noise=NOISE, seed=3, method="cdr", settings={"epochs": 1, "precision": "bfloat16"})
    run(config, tmp_path, checkpoint_every_seconds=5.0)
    assert (told["bf16"], told["compiled"], told["checkpoint_every_seconds"]) == (True, False, 5.0)
    assert told["cudnn"] == (True, False)
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32) == (False, True)
    assert told["loader"].order is told["streams"]["order"]
    assert torch.equal(told["global"], torch_stream(3, "global").get_state())


def test_every_word_reaches_where_it_is_used(tmp_path, monkeypatch):
    prepare_data, prepare_method, told = running.prepare_data, running.prepare_method, {}

    def data(config, root, device):
        told["data"] = root
        return prepare_data(config, root, device)

    def method(config, data, generator, device, root, weights):
        told["method"] = (root, weights)
        return prepare_method(config, data, generator, device, root, weights)

    def train(*_, **options):
        told.update(options)
        raise Stop

    monkeypatch.setattr(running, "prepare_data", data)
    monkeypatch.setattr(running, "prepare_method", method)
    monkeypatch.setattr(running, "compiling", lambda config: nullcontext(lambda: None))
    monkeypatch.setattr(torch.nn.Module, "compile", lambda *_, **__: None)
    monkeypatch.setattr(running, "train", train)
    root, weights, prepared, on_step = tmp_path / "data", tmp_path / "weights", [], lambda *_: None
    with pytest.raises(Stop):
        run(
            small(compiled=True),
            tmp_path / "runs",
            root=root,
            weights=weights,
            engine="eager",
            on_prepared=lambda *given: prepared.append([type(each).__name__ for each in given]),
            on_step=on_step,
        )
    assert (told["data"], told["method"]) == (root, (root, weights))
    assert (told["compiled"], told["engine"], told["on_step"]) == (True, "eager", on_step)
    assert prepared == [["Tnlpad", "Data", "Sets"]]


def test_who_waits_for_compiled_code_is_told_before_the_first_epoch_is(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(running, "compiling", lambda config: nullcontext(lambda: said.append("compiled")))
    run(small(epochs=1), tmp_path, on_epoch=lambda record: said.append(record["epoch"]))
    assert said == ["compiled", 1]


def test_the_seconds_of_this_process(tmp_path, monkeypatch):
    clock = iter([100.0, 107.0])
    monkeypatch.setattr(running, "time", SimpleNamespace(time=lambda: next(clock)))
    assert run(small(), tmp_path).summary()["seconds"]["this_process"] == 7.0


def test_a_method_draws_from_its_own_stream(tmp_path, monkeypatch):
    """Which is saved with the others."""
    told, prepare = [], running.prepare_method

    def watched(config, data, generator, *where):
        told.append(generator)
        return prepare(config, data, generator, *where)

    def train(*_, streams, **__):
        told.append(streams["method"])
        raise Stop

    monkeypatch.setattr(running, "prepare_method", watched)
    monkeypatch.setattr(running, "train", train)
    with pytest.raises(Stop):
        run(small(), tmp_path)
    assert told[0] is told[1]


def test_scores_are_about_the_given_labels_of_each_part(tmp_path):
    config = configure("digits", noise=NOISE, settings={"epochs": 3, "batch_size": 256, "learning_rate": 1e-6})
    folder = run(config, tmp_path, scoring_interval=2)
    scores, data = read_scores(folder.path), running.prepare_data(config, None, torch.device("cpu"))
    columns = scores.columns
    assert columns["index"].tolist() == list(range(len(data.given)))
    assert columns["given"].tolist() == data.noisy.given.tolist()
    assert sorted(columns["index"][columns["part"] == "validation"]) == sorted(data.parts.validation)
    assert sorted(columns["index"][columns["part"] == "train"]) == sorted(data.parts.train)
    epoch = folder.summary()["chosen"]["epoch"]
    looks = {1: (1, 2), 2: (2, 2), 3: (3, 3)}[epoch]  # after the first, the second and whichever was the best
    facts = {"run_id": config.run_id, "chosen_epoch": epoch, "every": 2}
    assert scores.facts == {**facts, "epochs_until_chosen": looks[0], "epochs_to_end": looks[1]}


def test_scores_asked_for_too_late_are_left_out(tmp_path):
    """All epochs are over, and the end was not: there is no look left to take."""
    with pytest.raises(Stop):
        run(small(), tmp_path, on_epoch=stop_after(3))
    folder = run(small(), tmp_path, scoring_interval=1)
    assert folder.finished
    assert not list(folder.path.glob("*.parquet"))


def test_patience(tmp_path):
    summary = run(small(epochs=40, patience=1, learning_rate=1e-6), tmp_path).summary()
    assert summary["epochs_run"] < 40
    assert summary["stopped"] == "by patience"


def test_from_an_older_checkpoint_it_ends_the_same(tmp_path):
    whole = run(small(epochs=5), tmp_path / "whole")
    with pytest.raises(Stop):
        run(small(epochs=5), tmp_path / "parts", on_epoch=stop_after(1))
    with pytest.raises(Stop):
        run(small(epochs=5), tmp_path / "parts", checkpoint_every_seconds=1e9, on_epoch=stop_after(4))
    folder = RunFolder(tmp_path / "parts" / whole.path.name)
    assert len(folder.epochs()) == 4
    assert torch.load(folder.checkpoint_file, weights_only=True)["epoch"] == 1
    assert content(run(small(epochs=5), tmp_path / "parts")) == content(whole)


# What goes wrong


def test_divergence_keeps_the_last_checkpoint(tmp_path):
    config = small(learning_rate=1e12, epochs=4)
    with pytest.raises(Diverged, match=r"step \d+ of epoch \d"):
        run(config, tmp_path)
    folder = RunFolder(tmp_path / config.run_id)
    assert not folder.finished
    assert folder.config() == config.to_json()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (functools.partial(configure, "digits", method="coteaching"), "needs to know the share of wrong labels"),
        (functools.partial(small, "jocor", co_lambda=2.0), "co_lambda=2.0"),
        (functools.partial(small, stem_padding=1), "stem_padding"),
        (functools.partial(small, network="lenet"), "image_size=8"),
    ],
)
def test_what_cannot_start_leaves_no_trace(tmp_path, config, message):
    with pytest.raises((ValueError, TypeError), match=message):
        run(config(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def stopped(tmp_path):
    with pytest.raises(Stop):
        run(small(), tmp_path, on_epoch=stop_after(2))
    return RunFolder(tmp_path / small().run_id)


def damage_checkpoint(folder):
    content = bytearray(folder.checkpoint_file.read_bytes())
    content[len(content) // 2] ^= 1
    folder.checkpoint_file.write_bytes(content)


def lose_a_line(folder):
    folder.epochs_file.write_bytes(folder.epochs_file.read_bytes().split(b"\n")[0] + b"\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_checkpoint, r"checkpoint\.pt is damaged"),
        (lambda folder: folder.checkpoint_file.write_bytes(b""), r"checkpoint\.pt is damaged"),
        (lambda folder: torch.save({"epoch": 2}, folder.checkpoint_file), r"checkpoint\.pt"),
        (lambda folder: folder.config_file.write_text("{"), r"config\.json is damaged"),
        (lambda folder: folder.config_file.write_text('{"dataset": "mnist"}'), "describes another run"),
        (lambda folder: folder.epochs_file.write_text("{}\n"), r"epochs\.jsonl is damaged"),
        (lose_a_line, "checkpoint was taken after epoch 2"),
    ],
)
def test_a_damaged_record_is_reported_and_not_used(tmp_path, damage, message):
    folder = stopped(tmp_path)
    damage(folder)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(RecordError, match=message):
        run(small(), tmp_path)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: folder.summary_file.write_text("{"), r"summary\.json is damaged"),
        (lambda folder: folder.config_file.unlink(), r"config\.json is missing"),
        (lose_a_line, "1 of 3 epochs"),
        (lambda folder: folder.model_file.unlink(), r"no model\.safetensors"),
    ],
)
def test_a_damaged_finished_run_is_reported(tmp_path, damage, message):
    folder = run(small(), tmp_path)
    damage(folder)
    with pytest.raises(RecordError, match=message):
        run(small(), tmp_path)


def test_a_finished_run_that_is_another_one_throughout_is_reported(tmp_path):
    """Its parts agree with each other, and not with what was asked for."""
    folder = run(small(), tmp_path)
    other = {**folder.config(), "learning_rate": 0.5}
    folder.config_file.write_text(json.dumps(other))
    folder.summary_file.write_text(json.dumps({**folder.summary(), "config": other}))
    with pytest.raises(RecordError, match="describes another run"):
        run(small(), tmp_path)


def test_the_authors_choose_by_w_and_report_sigma(tmp_path):
    settings = {"epochs": 6, "milestones": ""}
    config = configure("digits", noise="symmetric:0.4", protocol="authors", settings=settings)
    folder = run(config, tmp_path)
    assert folder.summary()["selection"] == "first epoch of the highest noisy validation accuracy of w"
    for record in folder.epochs():
        assert record["validation_accuracy"] == record["judged"]["w"]["validation_accuracy"]
        assert record["test_accuracy"] == record["judged"]["sigma"]["test_accuracy"]
    assert next(iter(folder.epochs()[0]["judged"])) == "sigma"  # what is shipped


def test_a_checkpoint_left_by_a_kill_after_the_end_goes(tmp_path):
    folder = run(small(), tmp_path)
    assert not folder.checkpoint_file.exists()
    folder.checkpoint_file.write_bytes(b"left")
    run(small(), tmp_path)
    assert not folder.checkpoint_file.exists()


def test_a_run_in_use_is_refused(tmp_path):
    folder = RunFolder(tmp_path / small().run_id)
    with folder.lock(), pytest.raises(RecordError, match="in use by another process"):
        run(small(), tmp_path)
    assert run(small(), tmp_path).finished


def test_finished_by_another_process_in_the_meantime(tmp_path, monkeypatch):
    prepare, others = running.prepare_sets, []

    def slow(*arguments):
        monkeypatch.setattr(running, "prepare_sets", prepare)
        others.append(run(small(), tmp_path).summary())
        return prepare(*arguments)

    monkeypatch.setattr(running, "prepare_sets", slow)
    assert [run(small(), tmp_path).summary()] == others


def test_a_full_disk_in_the_middle(tmp_path, monkeypatch):
    whole = run(small(), tmp_path / "whole")
    replace, calls = os.replace, []

    def full(source, target):
        calls.append(target)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            run(small(), tmp_path / "full")
    folder = RunFolder(tmp_path / "full" / whole.path.name)
    assert not list(folder.path.glob(".*.tmp"))
    assert not folder.finished
    assert content(run(small(), tmp_path / "full")) == content(whole)


@pytest.mark.long
def test_every_method_learns_the_digits_with_40_percent_wrong_labels(tmp_path):
    """With the defaults; all of them together take between one and two minutes."""
    growth = {}
    for method in METHODS:
        config = configure("digits", noise=NOISE, method=method)
        folder = run(config, tmp_path)
        assert folder.summary()["chosen"]["test_accuracy"] >= 0.6, method
        curves = [[judged["memorised"] for judged in record["judged"].values()] for record in folder.epochs()]
        # SELF ends when filtering no longer helps.
        assert len(curves) == config.epochs or (method.startswith("self") and len(curves) > config.epochs / 2)
        # Wrong labels are learnt late if at all: hardly any in the first epochs.
        assert max(curves[1]) < 0.2, method
        growth[method] = max(curves[-1]) - max(curves[1])
    assert all(growth[method] > 0.1 for method in ("standard", "standard_2x", "tnlpad")), growth  # w of tnlpad


# Killed


class Saboteur:
    """Kills its own process at one moment of one write: in the middle of it, before its rename, or after."""

    def __init__(self, name, moment, occurrence=1):
        self.name, self.moment, self.left = name, moment, occurrence

    def install(self):
        """In a process that is about to be killed: nothing is put back."""
        atomic_files.open = self.open
        replace = os.replace

        def sabotaged(source, target):
            if self.moment == "before the rename" and self.meant(target):
                die()
            replace(source, target)
            if self.moment == "after the rename" and self.meant(target):
                die()

        os.replace = sabotaged

    def meant(self, path):
        if self.name not in os.path.basename(path):
            return False
        self.left -= 1
        return self.left == 0

    def open(self, path, mode, **options):
        file = builtins.open(path, mode, **options)  # noqa: SIM115
        return HalfWritten(file) if self.moment == "half written" and self.meant(path) else file


class HalfWritten:
    """A file whose process dies in the middle of its largest write."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *error):
        return self.file.__exit__(*error)

    def write(self, content):
        self.file.write(bytes(content)[: len(content) // 2])
        if len(content) < 64:  # the small pieces of an archive's beginning
            return self.file.write(bytes(content)[len(content) // 2 :])
        self.file.flush()
        return die()

    def __getattr__(self, name):
        return getattr(self.file, name)


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def in_a_child(config, out, saboteur=None, on_step=None):
    """Begin or go on with the run in a process of its own; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        if saboteur is not None:
            saboteur.install()
        run(config, out, on_step=on_step)
    except BaseException:
        os._exit(1)
    os._exit(0)


def killed_at_random(config, out, draw):
    """A child that has come some random number of steps and a little further is killed from outside."""
    ready, reached = os.pipe()
    steps = draw.randrange(9)  # of six per epoch; 0 is before the first, or before anything

    def on_step(*_):
        on_step.taken += 1
        if on_step.taken == steps:
            os.write(reached, b".")

    on_step.taken = 0
    child = in_a_child(config, out, on_step=on_step)
    os.close(reached)
    if steps:
        os.read(ready, 1)
    os.close(ready)
    time.sleep(draw.random() * (0.01 if steps else 0.1))
    os.kill(child, signal.SIGKILL)
    return how_it_ended(child)


def how_it_ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Each with the number of kills at random moments that follow it.
SABOTEURS = [
    (Saboteur("config.json", "half written"), 0),
    (Saboteur("config.json", "after the rename"), 3),
    (Saboteur("epochs.jsonl", "half written", 2), 0),
    (Saboteur("epochs.jsonl", "before the rename"), 3),  # of dropping that half
    (Saboteur("checkpoint.pt", "half written"), 3),
    (Saboteur("checkpoint.pt", "half written", 2), 3),
    (Saboteur("checkpoint.pt", "before the rename", 2), 3),
    (Saboteur("checkpoint.pt", "after the rename"), 3),
]
AT_THE_END = [
    (Saboteur("model.safetensors", "half written"), 0),
    (Saboteur("model.safetensors", "after the rename"), 0),
    (Saboteur("summary.json", "half written"), 0),
    (Saboteur("summary.json", "before the rename"), 0),
]
EPOCHS = 40  # far more than the children before the last ones come to


@pytest.mark.parametrize("method", ["tnlpad", "cnlcu"])
def test_killed_again_and_again_it_ends_with_the_same_record(tmp_path, method):
    config = small(method, epochs=EPOCHS)
    whole = run(config, tmp_path / "whole")
    out, draw = tmp_path / "killed", random.Random(method)
    folder = RunFolder(out / config.run_id)
    at_random = injected = 0
    for saboteur, kills in [*SABOTEURS, *AT_THE_END]:
        ended = how_it_ended(in_a_child(config, out, saboteur))
        assert ended == -signal.SIGKILL, f"{saboteur.name} {saboteur.moment}"
        injected += 1
        for _ in range(kills):
            at_random += killed_at_random(config, out, draw) == -signal.SIGKILL
        assert not folder.finished
        assert (len(folder.epochs()) == EPOCHS) == (saboteur.name in ("model.safetensors", "summary.json"))
    assert (at_random, injected) == (18, 12)
    assert how_it_ended(in_a_child(config, out)) == 0
    assert content(folder) == content(whole)
    assert not list(folder.path.glob(".*"))
