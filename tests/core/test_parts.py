"""The watch over who writes the weights."""

import copy

import pytest
import torch

from tests.core.problems import all_equal, batches, parts, sgd, small_network, train


def outside_load(model):
    model.load_state_dict(small_network(seed=4).state_dict())


def outside_write(model):
    with torch.no_grad():
        model[0].weight.mul_(2)


def step(model, optimizer):
    optimizer.step()


def start_epoch(model, optimizer):
    optimizer.start_epoch()


def switch_to_eval(model, optimizer):
    optimizer.eval()


def judge(model, optimizer):
    with optimizer.sigma_weights():
        pass


def export(model, optimizer):
    optimizer.sigma_state_dict(model)


def copy_and_step(model, optimizer):
    copy.deepcopy((model, optimizer))[1].step()


@pytest.mark.parametrize("change", [outside_load, outside_write])
@pytest.mark.parametrize("action", [step, start_epoch, switch_to_eval, judge, export, copy_and_step])
def test_weights_changed_from_outside_raise(change, action):
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(2))
    change(model)
    with pytest.raises(RuntimeError, match=r"0\.weight .* changed or moved from outside.*adopt_weights"):
        action(model, optimizer)


def test_the_same_values_written_or_moved_from_outside_are_accepted():
    data = batches(6)
    model, twin = small_network(), small_network()
    optimizer, other = sgd(model), sgd(twin)
    train(model, optimizer, data[:3], epoch_length=3)
    train(twin, other, data[:3], epoch_length=3)
    model.load_state_dict(copy.deepcopy(model.state_dict()))  # as DDP does when it sends the weights around
    model.to(memory_format=torch.channels_last)
    train(model, optimizer, data[3:])
    train(twin, other, data[3:])
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_change_within_the_block_is_undone_and_named():
    model = small_network()
    optimizer = sgd(model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="changed within the sigma_weights"), optimizer.sigma_weights():
        outside_write(model)
    assert all_equal(list(before.values()), list(model.state_dict().values()))

    def fail():
        outside_write(model)
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"), optimizer.sigma_weights():
        fail()
    assert all_equal(list(before.values()), list(model.state_dict().values()))


def test_adopt_weights_restarts_from_what_the_model_holds():
    model = small_network()
    optimizer = sgd(model)
    train(model, optimizer, batches(3), epoch_length=3)
    outside_load(model)
    optimizer.adopt_weights()
    assert all_equal(parts(optimizer, "anchor"), parts(optimizer, "sigma"))
    assert not any(s in optimizer.base.state for s in parts(optimizer, "sigma"))  # no momentum left
    assert all_equal(list(small_network(seed=4).parameters()), list(model.parameters()))
    assert all_equal(parts(optimizer, "sigma"), optimizer.param_groups[0]["params"])
    assert not any(g.any() for g in parts(optimizer, "gamma"))
    train(model, optimizer, batches(3))


def test_low_precision_models_keep_their_parts_in_single_precision():
    model = small_network(torch.bfloat16)
    optimizer = sgd(model, lr=1e-4)
    assert all(t.dtype == torch.float32 for t in parts(optimizer, "sigma"))
    optimizer.start_epoch()
    before = [t.clone() for t in parts(optimizer, "sigma")]
    train(model, optimizer, batches(3, torch.bfloat16))
    # Steps far below bfloat16's resolution are not lost.
    assert all((a != b).float().mean() > 0.9 for a, b in zip(before, parts(optimizer, "sigma"), strict=True))
    with optimizer.sigma_weights():
        for w, s in zip(optimizer.param_groups[0]["params"], parts(optimizer, "sigma"), strict=True):
            assert torch.equal(w, s.bfloat16())
