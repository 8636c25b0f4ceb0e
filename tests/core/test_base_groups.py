"""Options of our groups in the base's: schedulers, numbers that a base keeps, groups with options of their own."""

import copy

import pytest
import torch
from torch import nn

from tests.core.problems import all_equal, batches, everything, parts, sgd, small_network, train
from tnlpad import Decomposition, parameter_groups


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


def test_a_base_may_refuse_shapes():
    weight = nn.Parameter(torch.eye(3))
    optimizer = Decomposition([weight], torch.optim.Muon, lr=0.1)
    optimizer.start_epoch()
    weight.grad = torch.ones(3, 3)
    optimizer.step()
    assert not torch.equal(weight, torch.eye(3))
