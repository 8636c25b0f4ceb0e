"""Decomposed groups: writes from outside, options in the base optimizer, checks."""

import copy

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, everything, parts, sgd, small_network, train
from tnlpad import Decomposition, parameter_groups

# Weights written by other code


def outside_load(model):
    model.load_state_dict(small_network(seed=4).state_dict())


def outside_write(model):
    with torch.no_grad():
        model[0].weight.mul_(2)


def outside_shape(model):
    model[0].weight.data = torch.zeros(5, 3, 1, 1, dtype=torch.float64)


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


@pytest.mark.parametrize("change", [outside_load, outside_write, outside_shape])
@pytest.mark.parametrize("action", [step, start_epoch, switch_to_eval, judge, export, copy_and_step])
def test_weights_changed_from_outside_raise(change, action):
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(2))
    change(model)
    with pytest.raises(RuntimeError, match=r"0\.weight .* changed or moved .*adopt_weights"):
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


def test_weights_that_are_nan_were_not_changed_from_outside():
    """An error about that would hide that training has diverged."""
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    model[3].weight.grad = torch.full_like(model[3].weight, torch.nan)
    optimizer.step()
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    optimizer.start_epoch()
    assert model[3].weight.isnan().all()


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


@pytest.mark.parametrize("build", [sgd, adamw])
def test_adopt_weights_restarts_from_what_the_model_holds(build):
    model = small_network()
    optimizer = build(model)
    train(model, optimizer, batches(3), epoch_length=3)
    outside_load(model)
    optimizer.adopt_weights()
    assert all_equal(parts(optimizer, "anchor"), parts(optimizer, "sigma"))
    leaves = [*parts(optimizer, "sigma"), *parts(optimizer, "gamma")]
    assert not any(state.any() for leaf in leaves for state in optimizer.base.state.get(leaf, {}).values())
    assert all_equal(list(small_network(seed=4).parameters()), list(model.parameters()))
    assert all_equal(parts(optimizer, "sigma"), optimizer.param_groups[0]["params"])
    assert not any(g.any() for g in parts(optimizer, "gamma"))
    twin = small_network()
    other = build(twin)  # has taken no step
    outside_load(twin)
    other.adopt_weights()
    train(model, optimizer, batches(1))
    train(twin, other, batches(1), epoch_length=1)
    assert all_equal(parts(optimizer, "sigma"), parts(other, "sigma"))


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


# Options in the base optimizer


def test_learning_rate_schedulers_reach_both_parts():
    model = small_network()
    optimizer = sgd(model, gamma_lr_scale=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    optimizer.start_epoch()
    train(model, optimizer, batches(1))
    scheduler.step()
    train(model, optimizer, batches(1))
    assert [group["lr"] for group in optimizer.base.param_groups] == pytest.approx([0.005, 0.0025, 0.005])


def test_one_cycle_changes_momentum_too():
    model = small_network()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    optimizer.start_epoch()
    train(model, optimizer, batches(1))
    scheduler.step()
    train(model, optimizer, batches(1))
    assert optimizer.base.param_groups[1]["momentum"] == optimizer.param_groups[0]["momentum"] != 0.9


def test_a_tensor_learning_rate_can_be_changed_in_place():
    runs = []
    for rate in (0.05, torch.tensor(0.05)):
        model = small_network(torch.float32)
        optimizer = sgd(model, lr=rate)
        optimizer.start_epoch()
        train(model, optimizer, batches(3, torch.float32))
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(0.01)
            else:
                group["lr"] = 0.01
        train(model, optimizer, batches(3, torch.float32))
        runs.append(everything(model, optimizer))
    assert all(torch.allclose(a.float(), b.float(), atol=1e-6) for a, b in zip(*runs, strict=True))


def test_loading_fills_a_tensor_learning_rate_in_place():
    rate = torch.tensor(0.05)
    optimizer = sgd(small_network(), lr=rate)
    saved = copy.deepcopy(optimizer.state_dict())
    rate.fill_(0.5)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.05)
    optimizer.start_epoch()
    optimizer.step()
    assert all(group["lr"] is rate for group in optimizer.base.param_groups)


def test_a_state_saved_right_after_a_scheduler_s_step_resumes_with_the_new_rate():
    data = batches(10, torch.float32)
    model = small_network(torch.float32)
    optimizer = sgd(model, gamma_lr_scale=0.5)
    train(model, optimizer, data[:5], epoch_length=5)
    torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1).step()
    again = small_network(torch.float32, seed=5)
    resumed = sgd(again, gamma_lr_scale=0.5)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again.load_state_dict(model.state_dict())
    assert train(model, optimizer, data[5:]) == train(again, resumed, data[5:])
    assert all_equal(everything(model, optimizer), everything(again, resumed))


def test_parameter_groups_may_have_options_of_their_own():
    model = small_network()
    head = parameter_groups(model[6])
    body = parameter_groups(model[:6])
    for group in body:
        group["lr"] = 0.0
    optimizer = Decomposition(body + head, torch.optim.SGD, lr=0.1, momentum=0.9)
    before = [p.clone() for p in model.parameters()]
    optimizer.start_epoch()
    train(model, optimizer, batches(3))
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert changed == [False] * 6 + [True] * 2


def test_groups_can_be_used_for_a_second_optimizer():
    model = small_network()
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(0))
    first = Decomposition(groups, torch.optim.SGD, lr=0.1)
    second = Decomposition(groups, torch.optim.SGD, lr=0.1)
    assert all_equal(parts(first, "gamma"), parts(second, "gamma"))
    assert all(g.any() for g in parts(second, "gamma"))


class Counting(torch.optim.SGD):
    """Keeps a number of its own in its groups, as Prodigy and schedule-free do."""

    def __init__(self, params, lr):
        super().__init__(params, lr=lr)
        self.defaults["k"] = 0
        for group in self.param_groups:
            group.setdefault("k", 0)

    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
        return super().step(closure)


def test_a_base_may_keep_numbers_in_its_groups():
    model = small_network()
    optimizer = Decomposition(parameter_groups(model), Counting, lr=0.1)
    train(model, optimizer, batches(5), epoch_length=5)
    assert [group["k"] for group in optimizer.base.param_groups] == [5, 5, 5]
    again = small_network()
    resumed = Decomposition(parameter_groups(again), Counting, lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    train(again, resumed, batches(1))
    assert [group["k"] for group in resumed.base.param_groups] == [6, 6, 6]


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
def test_a_base_may_refuse_shapes():
    weight = nn.Parameter(torch.eye(3))
    optimizer = Decomposition([weight], torch.optim.Muon, lr=0.1)
    optimizer.start_epoch()
    weight.grad = torch.ones(3, 3)
    optimizer.step()
    assert not torch.equal(weight, torch.eye(3))


# Checks


def test_proximal_is_for_sgd_with_one_learning_rate():
    with pytest.raises(ValueError, match="SGD only, not for AdamW"):
        adamw(small_network(), gamma_update="proximal")
    model = small_network()
    groups = parameter_groups(model[:6]) + parameter_groups(model[6])
    groups[-1]["lr"] = 0.5
    with pytest.raises(ValueError, match=r"one lr over all decomposed groups, not \[0.1, 0.5\]"):
        Decomposition(groups, torch.optim.SGD, lr=0.1, gamma_update="proximal")
    groups[-1]["lr"] = 0.1
    optimizer = Decomposition(groups, torch.optim.SGD, lr=0.1, gamma_update="proximal")
    optimizer.start_epoch()
    optimizer.param_groups[-1]["lr"] = 0.2  # as a scheduler might
    with pytest.raises(ValueError, match="one lr"):
        optimizer.step()


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"params": [nn.Parameter(torch.ones(2), requires_grad=False)]}, "requires no gradient"),
        ({"params": [nn.Parameter(torch.ones(2))], "lr": 0.9}, "one lr over all"),
        ({"params": [nn.Parameter(torch.ones(2))], "gamma_lr_scale": float("nan")}, "gamma_lr_scale=nan"),
    ],
)
def test_a_failed_add_param_group_leaves_the_optimizer_usable(group, message):
    model = small_network()
    optimizer = sgd(model, gamma_update="proximal")
    parts_of_it = {name: [torch.full((2,), 3.0)] for name in ("sigma", "gamma")}
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({**group, **parts_of_it, "param_names": ["extra"]})
    assert group["params"][0].tolist() == [1, 1]
    assert len(optimizer.param_groups) == 2
    optimizer.state_dict()
    train(model, optimizer, batches(3), epoch_length=3)


def test_groups_cannot_change_their_nature():
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    optimizer.param_groups[0]["decompose"] = False
    with pytest.raises(RuntimeError, match="build a new optimizer"):
        optimizer.step()
    optimizer.param_groups[0]["decompose"] = True
    optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][:1]
    with pytest.raises(RuntimeError, match="build a new optimizer"):
        optimizer.step()


def test_freezing_a_decomposed_parameter_raises():
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    model[3].requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"3\.weight .* no longer requires a gradient"):
        optimizer.step()


def test_sparse_gradients_are_refused():
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = Decomposition(embedding.parameters(), torch.optim.SGD, lr=0.1)
    optimizer.start_epoch()
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse=False"):
        optimizer.step()


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW])
def test_a_refused_step_changes_nothing(base):
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 2))
    groups = parameter_groups(model, decompose="all")
    optimizer = Decomposition(groups, base, lr=0.1, steps_per_epoch=1)
    before = [p.clone() for p in model.parameters()]
    model(torch.tensor([1])).sum().backward()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="sparse=False"):
            optimizer.step()
    assert (optimizer.epoch, optimizer.steps) == (0, 0)
    optimizer.zero_grad()
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
