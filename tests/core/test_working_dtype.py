"""Weights kept in bfloat16: the same training as under autocast, bit for bit, and nothing rounded where it is saved."""

import copy

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, parts, sgd, small_network
from tnlpad import Decomposition

STEPS, EPOCH = 12, 4


def train_in_bfloat16(model, optimizer, steps=STEPS):
    losses = []
    for step, (images, labels) in enumerate(batches(steps, torch.float32)):
        if step % EPOCH == 0:
            optimizer.start_epoch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained(build=sgd, steps=STEPS, **options):
    model = small_network(torch.float32).to(memory_format=torch.channels_last)
    optimizer = build(model, **options)
    return model, optimizer, train_in_bfloat16(model, optimizer, steps)


def logits(model):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return model.eval()(batches(1, torch.float32)[0][0])


@pytest.mark.parametrize("options", [{}, {"norm": "tensor"}, {"gamma_update": "proximal"}, {"build": adamw}])
def test_training_is_that_of_autocast_bit_for_bit(options):
    model, optimizer, losses = trained(**options)
    twin, narrow, its_losses = trained(**options, working_dtype=torch.bfloat16)
    assert losses == its_losses
    for name in ("sigma", "gamma", "anchor"):
        assert all_equal(parts(optimizer, name), parts(narrow, name))
    assert all_equal(logits(model), logits(twin))
    with optimizer.sigma_weights(), narrow.sigma_weights():
        assert all_equal(logits(model), logits(twin))


def test_weights_and_gradients_are_narrow_and_biases_are_not():
    model, optimizer, _ = trained(working_dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters() if p.ndim > 1} == {torch.bfloat16}
    assert {p.grad.dtype for p in model.parameters() if p.ndim > 1} == {torch.bfloat16}
    assert {p.dtype for p in model.parameters() if p.ndim == 1} == {torch.float32}
    assert {part.dtype for name in ("sigma", "gamma") for part in parts(optimizer, name)} == {torch.float32}
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_what_is_saved_is_not_rounded():
    model, optimizer, _ = trained()
    twin, narrow, _ = trained(working_dtype=torch.bfloat16)
    saved, ours = optimizer.sigma_state_dict(model), narrow.sigma_state_dict(twin)
    assert list(saved) == list(ours)
    assert ours._metadata == saved._metadata
    assert all(ours[name].dtype == saved[name].dtype and torch.equal(ours[name], saved[name]) for name in saved)
    small_network(torch.float32).load_state_dict(ours)
    held = narrow.full_precision(twin.state_dict(keep_vars=True))
    assert all(torch.equal(held[name], value) for name, value in model.state_dict().items())
    assert not any(value.requires_grad for value in held.values())


def test_tied_weights_stay_tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    saved = sgd(model, working_dtype=torch.bfloat16).sigma_state_dict(model)
    assert saved["0.weight"].dtype == torch.float32
    assert saved["0.weight"].data_ptr() == saved["1.weight"].data_ptr()


@pytest.mark.parametrize("first", [None, torch.bfloat16])
@pytest.mark.parametrize("second", [None, torch.bfloat16])
def test_resumes_from_either(first, second):
    expected_model, expected, _ = trained(steps=2 * EPOCH)
    train_in_bfloat16(expected_model, expected, EPOCH)
    model, optimizer, _ = trained(steps=2 * EPOCH, working_dtype=first)
    state = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    resumed = small_network(torch.float32, seed=5).to(memory_format=torch.channels_last)
    again = sgd(resumed, working_dtype=second)
    resumed.load_state_dict(state["model"])
    again.load_state_dict(state["optimizer"])
    train_in_bfloat16(resumed, again, EPOCH)
    for name in ("sigma", "gamma", "anchor"):
        assert all_equal(parts(expected, name), parts(again, name))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match=r"working_dtype=torch\.\w+: choose torch\.bfloat16"):
        Decomposition(small_network().parameters(), torch.optim.SGD, lr=0.1, working_dtype=dtype)
