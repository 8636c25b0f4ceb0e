import json
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager

import pytest
import torch

from tests.ranks.comparison import without_times
from tests.training import toy
from tnlpad.data.augment import Augmentation
from tnlpad.data.loader import DeviceLoader
from tnlpad.methods import METHODS
from tnlpad.methods.protocol import end_epoch, phase_of, steps_of
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import prepare_data, prepare_loader, prepare_method, prepare_sets
from tnlpad.training import engine as engines
from tnlpad.training.engine import Captured, Eager, Replayed, choose_engine, own_stream
from tnlpad.training.loop import set_learning_rate
from tnlpad.training.measure import Evaluator, measure
from tnlpad.types import Clock

CPU = torch.device("cpu")
gpu = pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def on_gpu(test):
    for mark in gpu:
        test = mark(test)
    return test


def parts(method="standard", device=CPU, **settings):
    """A run on the digits, taken apart: 1,294 training images make twenty batches of 64 and a short one."""
    config = configure("digits", noise="symmetric:0.4", method=method, settings=settings)
    data = prepare_data(config, None, device)
    loader, streams = prepare_loader(config, data, device)
    sets = prepare_sets(config, data, device)
    return prepare_method(config, data, streams["method"], device), loader, sets


def trained(engine, method, epochs):
    """The losses of some epochs, in a row."""
    losses = []
    for epoch in range(1, epochs + 1):
        clock = Clock(epoch=epoch, epochs=epochs)
        method.begin_epoch(clock)
        losses.append(engine.epoch(clock, None))
    return torch.cat(losses)


def weights(method):
    return [parameter for o in method.optimizers for group in o.param_groups for parameter in group["params"]]


# Settings that bring every phase of a method into a few epochs, with enough steps of each to be captured.
PHASES = {
    "self": {"epochs": 9, "iterations": 2},
    "self+tnlpad": {"epochs": 9, "iterations": 2, "decompose": "first"},
    "dividemix": {"warmup_epochs": 4},
    "dividemix+tnlpad": {"warmup_epochs": 4},
}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("standard", {}),
        ("dividemix", {"warmup_epochs": 1}),
        ("dividemix", {"warmup_epochs": 1, "threshold": 0.0}),
        ("self", {"epochs": 2}),
    ],
)
def test_steps_from_a_plan_are_the_steps_from_a_loader(name, settings, monkeypatch):
    """The step that a GPU captures, run eagerly."""
    monkeypatch.setattr(engines, "EAGER_STEPS", 10**9)
    (first, loader, _), (second, other_loader, _) = (parts(name, **settings) for _ in range(2))
    losses = [trained(Eager(first, loader), first, 2), trained(Replayed(second, other_loader), second, 2)]
    # With a threshold of 0, DivideMix takes more steps than the loader has batches, which then starts again.
    assert len(losses[0]) == len(loader) + steps_of(first, len(loader))
    assert settings.get("threshold") is None or len(losses[0]) > 2 * len(loader)
    assert torch.equal(*losses)
    for a, b in zip(weights(first), weights(second), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", [Eager, Replayed])
def test_on_step_is_called_for_every_step(kind, monkeypatch):
    monkeypatch.setattr(engines, "EAGER_STEPS", 10**9)
    method, loader, _ = parts()
    calls = []
    clock = Clock(epoch=3, epochs=5)
    method.begin_epoch(clock)
    kind(method, loader).epoch(clock, lambda *where: calls.append(where))
    assert calls == [(3, step, len(loader)) for step in range(1, len(loader) + 1)]


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("kind", [Eager, Replayed])
def test_steps_have_the_precision_of_bf16(kind, bf16, monkeypatch):
    monkeypatch.setattr(engines, "EAGER_STEPS", 10**9)
    method, loader, _ = parts(batch_size=500)
    seen = set()
    method.network.register_forward_hook(lambda *found: seen.add(found[-1].dtype))
    trained(kind(method, loader, bf16=bf16), method, 1)
    assert seen == {torch.bfloat16 if bf16 else torch.float32}


@pytest.mark.parametrize("kind", [Eager, Replayed])
def test_a_short_batch_is_not_compiled_for(kind, monkeypatch):
    """And every epoch has losses of its own."""
    monkeypatch.setattr(engines, "EAGER_STEPS", 10**9)
    asked, compiled_if = [], engines.compiled_if
    monkeypatch.setattr(engines, "compiled_if", lambda wanted: asked.append(wanted) or compiled_if(wanted))
    method, loader, _ = parts(batch_size=500)
    losses = trained(kind(method, loader), method, 2)
    assert asked == [True, True, False] * 2
    assert losses.unique().numel() == 6


def test_each_phase_and_size_is_captured_for_itself(monkeypatch):
    monkeypatch.setattr(engines, "EAGER_STEPS", 10**9)
    method, loader, _ = parts(batch_size=500)
    replayed = Replayed(method, loader)
    for phase in ("first", "second", "first"):
        method.phase = phase
        trained(replayed, method, 1)
    assert list(replayed.graphs) == [("first", 500), ("first", 293), ("second", 500), ("second", 293)]


def test_the_choice():
    method, loader = toy.Plain(), toy.Loader()
    planned = DeviceLoader(
        torch.zeros(4, 1, 2, 2, dtype=torch.uint8),
        torch.zeros(4),
        batch_size=2,
        mean=[0],
        std=[1],
        augmentation=Augmentation(),
    )
    assert isinstance(choose_engine("auto", method, planned, device=CPU), Eager)
    assert isinstance(choose_engine("eager", method, planned, device=torch.device("cuda")), Eager)
    assert isinstance(choose_engine("auto", method, loader, device=torch.device("cuda")), Eager)
    assert isinstance(choose_engine("auto", method, planned, device=torch.device("cuda")), Replayed)
    with pytest.raises(ValueError, match="engine='graph': needs a GPU"):
        choose_engine("graph", method, planned, device=CPU)
    with pytest.raises(ValueError, match="data in memory"):
        choose_engine("graph", method, loader, device=torch.device("cuda"))
    with pytest.raises(ValueError, match="engine='graf': choose"):
        choose_engine("graf", method, loader, device=CPU)


def test_what_cannot_be_captured_goes_on_with_one_warning(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    calls = []
    captured = Captured(lambda: calls.append(1) or len(calls), eager_runs=2)
    assert [captured(), captured()] == [1, 2]
    with pytest.warns(UserWarning, match="No CUDA graph.*: operation not permitted when stream is capturing$"):
        assert captured() == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert captured() == 4


def test_where_memory_was_short_it_is_captured_later(monkeypatch):
    class Graph:
        def replay(self):
            calls.append("replay")

    @contextmanager
    def graph(*_, **__):
        attempts.append(len(calls))
        yield
        if len(attempts) < 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    calls, attempts = [], []
    captured = Captured(lambda: calls.append("call"), eager_runs=3)

    def called(times):
        return [captured() or calls[-1] for _ in range(times)]

    with pytest.warns(UserWarning, match="No CUDA graph.*: CUDA out of memory") as warned:
        assert called(26) == ["call"] * 24 + ["replay"] * 2
    assert attempts == [3, 7, 14, 27]  # before calls 4, 7, 13 and 25; each attempt calls the function as well
    assert len(warned) == 1


@on_gpu
@pytest.mark.parametrize("method", METHODS)
def test_graph_and_eager_agree_to_the_bit(method):
    """Every step of some epochs in deterministic float32: losses, weights, selections, and what is measured."""
    device, results = torch.device("cuda"), []
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for kind in (Eager, Replayed):
            built, loader, sets = parts(method, device, **PHASES.get(method, {}))
            engine, evaluator = kind(built, loader), Evaluator(captured=kind is Replayed)
            measured = []
            with own_stream(device):
                losses = []
                phases = set()
                for epoch in range(1, 10 if method in PHASES else 6):
                    clock = Clock(epoch=epoch, epochs=9)
                    built.begin_epoch(clock)
                    set_learning_rate(built.optimizers, 0.01 / epoch)
                    losses.append(engine.epoch(clock, None))
                    measured.append(measure(built, sets, evaluator))
                    end_epoch(built, measured[-1]["judged"][built.reported[0]]["validation_accuracy"])
                    phases.add(phase_of(built))
            assert len(phases) == (2 if method in PHASES and method != "self" else 1)
            if kind is Replayed:
                assert len(engine.graphs) == 2 * len(phases)
                assert all(each.graph is not None for each in engine.graphs.values())
                assert all(each.graph is not None for each in evaluator.passes.values())
            results.append((torch.cat(losses), weights(built), dict(built.selections), measured))
    finally:
        torch.use_deterministic_algorithms(False)
    eager, graph = results
    assert torch.equal(eager[0], graph[0])
    assert all(torch.equal(a, b) for a, b in zip(eager[1], graph[1], strict=True))
    assert all(torch.equal(picked, graph[2][name]) for name, picked in eager[2].items())
    assert eager[3] == graph[3]


@on_gpu
@pytest.mark.parametrize("method", ["standard", "tnlpad"])
def test_compiled_and_bfloat16_agree_within_rounding(method):
    """The losses of 50 steps; bfloat16 has eight bits."""
    device, curves = torch.device("cuda"), {}
    for name, kind, compiled in (("eager", Eager, False), ("compiled", Eager, True), ("graph", Replayed, True)):
        built, loader, _ = parts(method, device, compiled=compiled)
        with own_stream(device):
            engine = (
                Eager(built, loader, bf16=True) if kind is Eager else Replayed(built, loader, bf16=True, compiled=True)
            )
            curves[name] = trained(engine, built, 3)[:50]
    torch.testing.assert_close(curves["compiled"], curves["graph"], rtol=0.03, atol=0.03)
    torch.testing.assert_close(curves["compiled"], curves["eager"], rtol=0.03, atol=0.03)


@on_gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16_weights_change_no_number_of_a_run(tmp_path, monkeypatch, compiled):
    from tnlpad.runs.run import run

    settings = {"epochs": 3, "precision": "bfloat16", "compiled": compiled}
    config = configure("digits", noise="symmetric:0.4", network="resnet18", device="cuda", settings=settings)
    dtypes = []

    def note(method, *_):
        dtypes.append(method.optimizer.working_dtype)

    ours = run(config, tmp_path / "ours", device="cuda", on_prepared=note)
    monkeypatch.setattr("tnlpad.runs.prepare.working_dtype", lambda config, device: None)
    plain = run(config, tmp_path / "plain", device="cuda", on_prepared=note)
    assert dtypes == [torch.bfloat16, None]
    assert without_times(ours.epochs()) == without_times(plain.epochs())
    assert (ours.path / "model.safetensors").read_bytes() == (plain.path / "model.safetensors").read_bytes()


@on_gpu
def test_a_run_on_the_gpu_killed_and_resumed_is_the_same_run(tmp_path):
    from tnlpad.runs.run import run

    class Stop(Exception):
        pass

    def stop_after(record):
        if record["epoch"] == 3:
            raise Stop

    settings = {"epochs": 6, "compiled": False}
    config = configure("digits", noise="symmetric:0.4", device="cuda", settings=settings)
    whole = run(config, tmp_path / "whole", device="cuda")
    with pytest.raises(Stop):
        run(config, tmp_path / "parts", device="cuda", on_epoch=stop_after)
    resumed = run(config, tmp_path / "parts", device="cuda")
    eager = run(config, tmp_path / "eager", device="cuda", engine="eager")

    def numbers(folder):
        return [{k: v for k, v in record.items() if k != "seconds"} for record in folder.epochs()]

    assert numbers(resumed) == numbers(whole)
    assert numbers(eager) == numbers(whole)


@on_gpu
def test_compiled_runs_in_two_processes_at_once_are_the_same_run(tmp_path):
    """Neither what each compiles for itself nor that they share the GPU shows in their numbers."""
    command = [sys.executable, "-m", "tnlpad", "train", "digits", "--noise", "symmetric:0.4", "--device", "cuda"]
    caches = [{"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"cache-{n}")} for n in range(2)]
    processes = [
        subprocess.Popen([*command, "--set", "epochs=4", "--quiet", "--out", tmp_path / str(n)], env=os.environ | cache)
        for n, cache in enumerate(caches)
    ]
    assert [process.wait() for process in processes] == [0, 0]
    first, second = (
        [{**json.loads(line), "seconds": None} for line in next((tmp_path / str(n)).glob("*/epochs.jsonl")).open()]
        for n in range(2)
    )
    assert len(first) == 4
    assert first == second
