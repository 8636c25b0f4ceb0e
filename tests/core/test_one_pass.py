"""When the CUDA kernel is used and when it is built anew, with a stand-in for it; `test_fused_sgd` has the real one."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, everything, sgd, small_network, train


class Kernel:
    """Changes nothing, and notes what it is asked to do."""

    def __init__(self, every, base_state, global_norm):
        self.every, self.global_norm = every, global_norm
        self.calls = []
        self.accepting = True

    def accepts(self):
        return self.accepting

    def step(self, beta):
        self.calls.append("step")

    def measure(self):
        self.calls.append("measure")


@pytest.fixture
def with_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "tnlpad.core.fused_sgd", SimpleNamespace(FusedSGD=Kernel))
    monkeypatch.setattr("tnlpad.core.one_pass.OnePass._fits", lambda self, base, every, beta: True)


def trained(**options):
    model = small_network()
    optimizer = sgd(model, **options)
    train(model, optimizer, batches(2), epoch_length=2)
    return model, optimizer


def test_a_cpu_has_no_kernel():
    assert trained()[1]._one_pass.kernel is None


def test_the_kernel_updates_in_place_of_the_general_step(with_kernel):
    model, optimizer = trained(norm="tensor")
    kernel = optimizer._one_pass.kernel
    assert not kernel.global_norm
    assert kernel.every is optimizer._parts
    optimizer.start_epoch()
    assert kernel.calls == ["step", "step", "measure"]
    assert optimizer.steps == 2
    assert not torch.equal(model[1].weight, small_network()[1].weight)  # the ordinary parameters, by the base


def test_a_step_that_it_refuses_is_the_general_one_and_its_norms_are_taken_anew(with_kernel):
    model, optimizer = trained()
    kernel = optimizer._one_pass.kernel
    before = [tensor.clone() for tensor in everything(model, optimizer)]
    kernel.accepting = False
    train(model, optimizer, batches(1))
    kernel.accepting, optimizer.param_groups[0]["dampening"] = True, 0.1
    train(model, optimizer, batches(1))
    assert kernel.calls == ["step", "step", "measure", "measure"]
    assert not all_equal(before, everything(model, optimizer))


def add_group(model, optimizer):
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "param_names": ["extra"]})


def load(model, optimizer):
    optimizer.load_state_dict(optimizer.state_dict())


def adopt(model, optimizer):
    optimizer.adopt_weights()


def move(model, optimizer):
    model[0].weight.data = model[0].weight.data.clone()
    optimizer.start_epoch()


@pytest.mark.parametrize("action", [add_group, load, adopt, move])
def test_it_is_built_anew_when_tensors_moved_or_others_take_part(with_kernel, action):
    model, optimizer = trained()
    before = optimizer._one_pass.kernel
    action(model, optimizer)
    assert optimizer._one_pass.kernel is None
    train(model, optimizer, batches(1))
    assert optimizer._one_pass.kernel is not before


def test_copies_leave_it_behind(with_kernel):
    model, optimizer = trained()
    assert copy.deepcopy((model, optimizer))[1]._one_pass.kernel is None
    assert optimizer._one_pass.kernel is not None


@pytest.mark.parametrize(
    ("build", "dtype", "options", "fits"),
    [
        (sgd, torch.float32, {}, True),
        (sgd, torch.bfloat16, {}, True),
        (sgd, torch.float64, {}, False),
        (sgd, torch.float32, {"gamma_update": "proximal"}, False),
        (sgd, torch.float32, {"dampening": 0.1}, False),
        (sgd, torch.float32, {"weight_decay": torch.tensor(1e-3)}, False),
        (adamw, torch.float32, {}, False),
    ],
)
def test_it_is_for_plain_sgd_over_parts_in_single_precision(monkeypatch, build, dtype, options, fits):
    optimizer = build(small_network(dtype), **options)
    on_cuda = SimpleNamespace(is_cuda=True)
    monkeypatch.setattr("tnlpad.core.one_pass.find_spec", lambda name: object())
    assert optimizer._one_pass._fits(optimizer.base, optimizer._parts, on_cuda) == fits
    monkeypatch.setattr("tnlpad.core.one_pass.find_spec", lambda name: None)
    assert not optimizer._one_pass._fits(optimizer.base, optimizer._parts, on_cuda)
