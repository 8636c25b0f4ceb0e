"""What is refused: before anything is changed, and with the way out."""

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, everything, sgd, small_network, train
from tnlpad import Decomposition, parameter_groups
from tnlpad.core.penalties import LinearGrowth


def test_wrong_kinds_of_arguments_say_what_is_wanted():
    weight = nn.Parameter(torch.ones(3))
    with pytest.raises(TypeError, match="single tensor"):
        Decomposition(weight, torch.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="give the class itself"):
        Decomposition([weight], torch.optim.SGD([weight], lr=0.1))
    with pytest.raises(ValueError, match="twice in one group"), pytest.warns(UserWarning, match="duplicate"):
        Decomposition([weight, weight], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="differentiable"):
        Decomposition([weight], torch.optim.SGD, lr=0.1, differentiable=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c1": -1e-4}, "c1=-0.0001.*>= 0"),
        ({"c2": float("nan")}, "c2=nan"),
        ({"c1": 1e-4, "sigma_penalty": LinearGrowth(1e-3)}, "say the same thing twice"),
        ({"norm": "layer"}, "norm='layer'"),
        ({"gamma_update": "prox"}, "gamma_update='prox'"),
        ({"gamma_lr_scale": -1.0}, "gamma_lr_scale=-1.0"),
        ({"steps_per_epoch": 0}, "steps_per_epoch=0"),
        ({"lr": -1.0}, "learning rate"),
        ({"momentums": 0.9}, "momentums"),
        ({"gamma_update": "proximal", "nesterov": True}, "nesterov=False"),
        ({"gamma_update": "proximal", "maximize": True}, "maximize=False"),
        ({"gamma_update": "proximal", "momentum": 1.0}, "momentum < 1"),
    ],
)
def test_invalid_arguments(options, message):
    settings = {"lr": 0.1, "momentum": 0.9, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        Decomposition(parameter_groups(small_network()), torch.optim.SGD, **settings)


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


def test_lbfgs_is_refused():
    with pytest.raises(ValueError, match="LBFGS"):
        Decomposition([nn.Parameter(torch.ones(2))], torch.optim.LBFGS)


def test_an_empty_or_frozen_decomposition_is_refused():
    model = small_network()
    with pytest.raises(ValueError, match="No parameter is decomposed"):
        Decomposition([{"params": list(model.parameters()), "decompose": False}], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="empty parameter list"):
        Decomposition([], torch.optim.SGD, lr=0.1)
    frozen = nn.Parameter(torch.ones(3), requires_grad=False)
    with pytest.raises(ValueError, match="requires no gradient"):
        Decomposition([frozen], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="complex64"):
        Decomposition([nn.Parameter(torch.ones(3, dtype=torch.complex64))], torch.optim.SGD, lr=0.1)


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
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({**group, "param_names": ["extra"]})
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


def test_a_state_of_another_base_is_refused_and_changes_nothing():
    model = small_network()
    optimizer = sgd(model)
    before = [t.clone() for t in everything(model, optimizer)]
    with pytest.raises(ValueError, match="saved with AdamW as its base, this one is SGD"):
        optimizer.load_state_dict(adamw(small_network()).state_dict())
    assert all_equal(before, everything(model, optimizer))


def test_a_state_of_another_model_or_optimizer_is_refused_and_changes_nothing():
    model = small_network()
    optimizer = sgd(model)
    before = [t.clone() for t in everything(model, optimizer)]
    other = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)).double()
    with pytest.raises(ValueError, match="another model"):
        optimizer.load_state_dict(sgd(other).state_dict())
    with pytest.raises(ValueError, match="base, decomposition is missing"):
        optimizer.load_state_dict(torch.optim.SGD(model.parameters(), lr=0.1).state_dict())
    everything_decomposed = Decomposition(
        parameter_groups(small_network(), decompose="all"), torch.optim.SGD, lr=0.1
    ).state_dict()
    with pytest.raises(ValueError, match="another choice of what is decomposed"):
        optimizer.load_state_dict(everything_decomposed)
    assert all_equal(before, everything(model, optimizer))
