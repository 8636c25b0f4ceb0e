import errno
import os
import random

import pytest
import torch

from tests.time_limit import time_limit
from tests.training.toy import Loader, Plain
from tnlpad.training.checkpoint import CheckpointError, Progress, load_checkpoint, save_checkpoint
from tnlpad.types import Clock

CPU = torch.device("cpu")


def trained():
    method, loader = Plain(), Loader()
    method.begin_epoch(Clock(epoch=1, epochs=1))
    for batch in loader:
        method.step(batch, None)
    return method, loader


def save(path, method, loader, epoch=1):
    progress = Progress(epoch=epoch, best={"weight": torch.ones(2)})
    save_checkpoint(path, progress, method, {"order": loader.order}, CPU)


def test_everything_comes_back(tmp_path):
    path = tmp_path / "checkpoint.pt"
    method, loader = trained()
    save(path, method, loader)
    expected_global, expected_order = torch.rand(3), torch.rand(3, generator=loader.order)
    fresh, fresh_loader = Plain(), Loader()
    progress = load_checkpoint(path, fresh, {"order": fresh_loader.order}, CPU)
    assert progress.epoch == 1
    assert torch.equal(progress.best["weight"], torch.ones(2))
    assert torch.equal(torch.rand(3), expected_global)
    assert torch.equal(torch.rand(3, generator=fresh_loader.order), expected_order)
    assert fresh.seen == 3
    assert torch.equal(fresh.selections["even"], method.selections["even"])
    for name, value in method.network.state_dict().items():
        assert torch.equal(fresh.network.state_dict()[name], value)


def test_it_is_plain_data(tmp_path):
    save(tmp_path / "checkpoint.pt", *trained())
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["epoch"] == 1


def test_none_yet(tmp_path):
    assert load_checkpoint(tmp_path / "none.pt", Plain(), {}, CPU).epoch == 0


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    with time_limit(10), pytest.raises(CheckpointError, match=r"pipe\.pt cannot be read \(it is not a regular file\)"):
        load_checkpoint(tmp_path / "pipe.pt", Plain(), {}, CPU)


def load(path):
    loader = Loader()
    return load_checkpoint(path, Plain(), {"order": loader.order}, CPU)


def test_cut_off_anywhere_it_is_reported(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, *trained())
    content = path.read_bytes()
    for size in [*range(0, len(content), 997), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match=r"checkpoint\.pt is damaged .*remove the run's folder"):
            load(path)


def tensors(path):
    method, loader = Plain(), Loader()
    progress = load_checkpoint(path, method, {"order": loader.order}, CPU)
    states = [*method.network.state_dict().values(), method.seen, method.selections["even"]]
    momentum = [state["momentum_buffer"] for state in method.optimizers[0].state.values()]
    return [*states, *momentum, loader.order.get_state(), torch.get_rng_state(), progress.best["weight"]]


def test_a_flipped_bit_is_reported_or_does_not_matter(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, *trained())
    content, expected, reported = path.read_bytes(), tensors(path), 0
    draw = random.Random(1)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found = tensors(path)
        except CheckpointError:
            reported += 1
        else:  # in the archive's padding
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert reported > 100


@pytest.mark.parametrize(
    "change", [lambda s: s.pop("streams"), lambda s: s["method"].pop("networks"), lambda s: s["streams"].clear()]
)
def test_the_state_of_something_else_is_reported(tmp_path, change):
    path = tmp_path / "checkpoint.pt"
    save(path, *trained())
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt is not a checkpoint of this run"):
        load(path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_keeps_the_previous_one(tmp_path, monkeypatch, call):
    path = tmp_path / "checkpoint.pt"
    method, loader = trained()
    save(path, method, loader, epoch=1)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        save(path, method, loader, epoch=2)
    assert load(path).epoch == 1
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_disk_that_fills_up_in_the_middle(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    method, loader = trained()
    save(path, method, loader, epoch=1)

    class Filling:
        def __init__(self, file):
            self.file, self.left = file, 1000

        def write(self, content):
            if len(content) > self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.left -= len(content)
            return self.file.write(content)

        def __getattr__(self, name):
            return getattr(self.file, name)

    saved = torch.save
    monkeypatch.setattr(torch, "save", lambda state, file: saved(state, Filling(file)))
    with pytest.raises(OSError, match="No space"):  # and not torch's own error about it
        save(path, method, loader, epoch=2)
    assert load(path).epoch == 1
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_an_interrupt_within_a_write_stays_one(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    method, loader = trained()
    save(path, method, loader, epoch=1)

    def interrupted(state, file):
        class Interrupting:
            def write(self, content):
                raise KeyboardInterrupt

        saved(state, Interrupting())

    saved = torch.save
    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):  # torch raises a RuntimeError from it
        save(path, method, loader, epoch=2)
    assert load(path).epoch == 1
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]
