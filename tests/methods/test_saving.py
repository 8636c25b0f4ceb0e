"""States that do not match are refused; states that match are written in place."""

import copy

import pytest
import torch

from tests.methods.problems import blobs, build, setup_for, train


def test_a_state_of_another_method_is_refused():
    problem = blobs()
    state = build("standard", setup_for(problem)).state_dict()
    with pytest.raises(ValueError, match="1 networks, this method has 2"):
        build("jocor", setup_for(problem)).load_state_dict(state)
    with pytest.raises(ValueError, match="another method"):
        build("sigua", setup_for(problem)).load_state_dict(state)
    with pytest.raises(ValueError, match="optimizers, tensors is missing"):
        build("standard", setup_for(problem)).load_state_dict({"networks": []})


def test_a_state_for_other_data_is_refused():
    state = build("sigua", setup_for(blobs(samples=1))).state_dict()
    with pytest.raises(ValueError, match="other data"):  # a single value would broadcast to any shape
        build("sigua", setup_for(blobs(samples=64))).load_state_dict(state)


def test_momentum_and_learning_rate_keep_their_place_in_memory():
    problem = blobs()
    sgd = {"lr": torch.tensor(0.1), "momentum": 0.9, "fused": True}
    method = build("standard", setup_for(problem, sgd=sgd))
    train(method, problem, 1)
    (optimizer,) = method.optimizers
    saved = copy.deepcopy(method.state_dict())
    buffers = [state["momentum_buffer"] for state in optimizer.state.values()]
    rate = optimizer.param_groups[0]["lr"]
    train(method, problem, range(2, 3))
    rate.fill_(0.5)
    method.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.1)
    for before, (index, state) in zip(buffers, enumerate(optimizer.state.values()), strict=True):
        assert state["momentum_buffer"] is before
        assert torch.equal(before, saved["optimizers"][0]["state"][index]["momentum_buffer"])


def test_two_methods_loaded_from_one_state_share_nothing():
    problem = blobs()
    source = build("standard", setup_for(problem))
    train(source, problem, 1)
    twin = build("standard", setup_for(problem))
    twin.load_state_dict(source.state_dict())
    ours, theirs = (next(iter(m.optimizers[0].state.values()))["momentum_buffer"] for m in (source, twin))
    assert torch.equal(ours, theirs)
    assert ours.data_ptr() != theirs.data_ptr()
