"""The fast optimizer against the slow, literal forms of the same equations, and its reductions to known cases."""

import copy

import pytest
import torch
from torch import nn

from tests.core.problems import batches, named_parts, parts, sgd, small_network, train
from tests.core.reference import Penalties, TwoBranch, TwoLeaves, branches, two_branch
from tnlpad import Decomposition, parameter_groups
from tnlpad.core.penalties import Constant, LinearGrowth, PowerDecay

STEPS, EPOCH = 100, 10
SIGMA_PENALTY, GAMMA_PENALTY = LinearGrowth(0.05), PowerDecay(0.6)


def reference_run(forward, leaves_sigma, leaves_gamma, optimizer, data, after_step):
    penalties = Penalties(leaves_sigma, leaves_gamma, SIGMA_PENALTY, GAMMA_PENALTY)
    for step, (images, labels) in enumerate(data):
        if step % EPOCH == 0:
            penalties.start_epoch()
        loss = nn.functional.cross_entropy(forward(images), labels) + penalties.value()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step(step)


def recorded_run(model, optimizer, data):
    """σ and γ after every step."""
    history = []
    for step, batch in enumerate(data):
        if step % EPOCH == 0:
            optimizer.start_epoch()
        train(model, optimizer, [batch])
        history.append([t.clone() for name in ("sigma", "gamma") for t in parts(optimizer, name)])
    return history


def largest_difference(a, b):
    return max((x - y).abs().max().item() for x, y in zip(a, b, strict=True))


def test_equals_the_two_branch_network_step_by_step_for_sgd():
    data = batches(STEPS)
    model = small_network()
    optimizer = sgd(model, c1=None, c2=None, sigma_penalty=SIGMA_PENALTY, gamma_penalty=GAMMA_PENALTY)
    doubled = two_branch(model, named_parts(optimizer, "sigma"), named_parts(optimizer, "gamma"))
    assert sum(isinstance(m, TwoBranch) for m in doubled.modules()) == 3
    history = recorded_run(model, optimizer, data)
    sigma, gamma = (list(side.values()) for side in branches(doubled))
    differences = []

    def compare(step):
        differences.append(largest_difference(history[step], sigma + gamma))

    base = torch.optim.SGD(doubled.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    reference_run(doubled, sigma, gamma, base, data, compare)
    assert len(differences) == STEPS
    assert max(differences) < 1e-10
    # BatchNorm is shared: the same affine parameters and running statistics.
    ours, theirs = model[1].state_dict(), doubled[1].state_dict()
    assert all(torch.allclose(ours[key], theirs[key], atol=1e-10, rtol=0) for key in ours)


@pytest.mark.parametrize("base", [torch.optim.AdamW, torch.optim.RMSprop])
def test_equals_two_leaf_autograd_for_other_bases(base):
    data = batches(STEPS)
    model = small_network()
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(3))
    optimizer = Decomposition(
        groups, base, lr=1e-3, weight_decay=1e-2, sigma_penalty=SIGMA_PENALTY, gamma_penalty=GAMMA_PENALTY
    )
    leaves = TwoLeaves(copy.deepcopy(model), named_parts(optimizer, "sigma"), named_parts(optimizer, "gamma"))
    history = recorded_run(model, optimizer, data)
    sigma, gamma = list(leaves.sigma.values()), list(leaves.gamma.values())
    differences = []

    def compare(step):
        differences.append(largest_difference(history[step], sigma + gamma))

    reference = base([*sigma, *gamma, *leaves.ordinary], lr=1e-3, weight_decay=1e-2)
    reference_run(leaves, sigma, gamma, reference, data, compare)
    assert len(differences) == STEPS
    assert max(differences) < 1e-9


def test_per_tensor_norms_equal_autograd():
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    optimizer = Decomposition(
        parameter_groups(model, init="random_split", generator=torch.Generator().manual_seed(0)),
        torch.optim.SGD,
        lr=0.01,
        norm="tensor",
        sigma_penalty=Constant(0.3),
        gamma_penalty=Constant(0.2),
    )
    sigma = [t.clone().requires_grad_() for t in parts(optimizer, "sigma")]
    gamma = [t.clone().requires_grad_() for t in parts(optimizer, "gamma")]
    anchor = [t.detach().clone() for t in sigma]
    inputs = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    optimizer.start_epoch()
    for _ in range(20):
        model(inputs).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        w = [s + g for s, g in zip(sigma, gamma, strict=True)]
        loss = ((inputs @ w[0].T + w[1]).tanh() @ w[2].T + w[3]).square().sum()
        loss = loss + 0.3 * sum((s - a).norm() for s, a in zip(sigma, anchor, strict=True))
        loss = loss + 0.2 * sum(g.norm() for g in gamma)
        gradients = torch.autograd.grad(loss, [*sigma, *gamma])
        with torch.no_grad():
            for leaf, gradient in zip([*sigma, *gamma], gradients, strict=True):
                leaf -= 0.01 * gradient
    assert largest_difference(parts(optimizer, "sigma") + parts(optimizer, "gamma"), sigma + gamma) < 1e-12


def test_decomposition_alone_is_plain_sgd_with_twice_the_rate_and_half_the_decay():
    data = batches(200)
    model = small_network()
    optimizer = sgd(model, c1=None, c2=None, sigma_penalty=None, gamma_penalty=None)
    plain = copy.deepcopy(model)
    conv_linear = [p for i in (0, 3, 6) for p in plain[i].parameters()]
    reference = torch.optim.SGD(
        [{"params": conv_linear, "lr": 0.1, "weight_decay": 5e-4}, {"params": plain[1].parameters()}],
        lr=0.05,
        momentum=0.9,
        weight_decay=1e-3,
    )
    optimizer.start_epoch()
    train(model, optimizer, data)
    train(plain, reference, data)
    assert largest_difference(model.parameters(), plain.parameters()) < 1e-10


def test_sigma_minus_gamma_never_sees_the_data():
    model = small_network()
    optimizer = sgd(model)
    difference = [s - g for s, g in zip(parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True)]
    momentum = [torch.zeros_like(d) for d in difference]
    for step, batch in enumerate(batches(60)):
        if step % EPOCH == 0:
            optimizer.start_epoch()
        sigma, gamma, anchor = (parts(optimizer, name) for name in ("sigma", "gamma", "anchor"))
        drift = [s - a for s, a in zip(sigma, anchor, strict=True)]
        drift_norm = torch.cat([d.flatten() for d in drift]).norm()
        gamma_norm = torch.cat([g.flatten() for g in gamma]).norm()
        beta1, beta2 = 0.05 * optimizer.epoch, optimizer.epoch**-0.6
        for k in range(len(difference)):
            pull = beta1 * drift[k] / drift_norm if drift_norm > 0 else 0 * drift[k]
            momentum[k] = 0.9 * momentum[k] + 1e-3 * difference[k] + pull - beta2 * gamma[k] / gamma_norm
            difference[k] = difference[k] - 0.05 * momentum[k]
        train(model, optimizer, [batch])
        now = [s - g for s, g in zip(parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True)]
        assert largest_difference(now, difference) < 1e-12


@pytest.mark.parametrize(
    ("base", "options"),
    [
        (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}),
        (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 1e-2}),
    ],
)
def test_gamma_without_a_learning_rate_leaves_the_base_optimizer_bit_for_bit(base, options):
    data = batches(50, torch.float32)
    model = small_network(torch.float32)
    plain = copy.deepcopy(model)
    optimizer = Decomposition(parameter_groups(model), base, sigma_penalty=None, gamma_lr_scale=0.0, **options)
    optimizer.start_epoch()
    assert train(model, optimizer, data) == train(plain, base(plain.parameters(), **options), data)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))


def test_proximal_with_an_infinite_penalty_is_the_base_optimizer_bit_for_bit():
    data = batches(50, torch.float32)
    model = small_network(torch.float32)
    plain = copy.deepcopy(model)
    options = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}
    optimizer = Decomposition(
        parameter_groups(model),
        torch.optim.SGD,
        sigma_penalty=None,
        gamma_penalty=Constant(torch.inf),
        gamma_update="proximal",
        **options,
    )
    optimizer.start_epoch()
    train(model, optimizer, data)
    train(plain, torch.optim.SGD(plain.parameters(), **options), data)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    assert all(not gamma.any() for gamma in parts(optimizer, "gamma"))


def quadratic(beta: float, target: torch.Tensor, gamma_update: str, lr: float = 0.05) -> Decomposition:
    """½‖σ + γ − target‖² with σ held at 0 by a zero learning rate of its own: only γ moves."""
    weight = nn.Parameter(torch.zeros(20, dtype=torch.float64))
    optimizer = Decomposition(
        [weight],
        torch.optim.SGD,
        lr=lr,
        momentum=0.9,
        sigma_penalty=None,
        gamma_penalty=Constant(beta),
        gamma_update=gamma_update,
    )
    optimizer.start_epoch()
    for _ in range(800):
        weight.grad = weight.detach() - target
        optimizer.step()
        # σ is put back, so that the problem is the one-group lasso in γ alone.
        state = optimizer.state[weight]
        state["sigma"].zero_()
        optimizer._parts[0].write(1.0)
    return optimizer


@pytest.mark.parametrize("length", [0.5, 1.5, 4.0])
def test_proximal_reaches_the_group_lasso_optimum_of_a_quadratic(length):
    direction = torch.randn(20, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    target = direction / direction.norm() * length
    optimizer = quadratic(1.0, target, "proximal")
    (gamma,) = parts(optimizer, "gamma")
    optimum = max(0.0, 1 - 1 / length) * target
    assert torch.allclose(gamma, optimum, atol=1e-8)
    if length < 1:
        assert not gamma.any()


def test_subgradient_reaches_the_same_optimum_above_the_threshold():
    target = torch.zeros(20, dtype=torch.float64)
    target[3] = 4.0
    (gamma,) = parts(quadratic(1.0, target, "subgradient"), "gamma")
    assert torch.allclose(gamma, 0.75 * target, atol=1e-6)


def test_gamma_leaves_zero_just_when_the_averaged_gradient_exceeds_beta():
    # With the naive threshold η instead of η/(1 − m) this γ would move at a tenth of β2.
    for gradient, moves in ((0.99, False), (1.01, True)):
        weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = Decomposition(
            [weight], torch.optim.SGD, lr=0.01, momentum=0.9, gamma_penalty=Constant(1.0), gamma_update="proximal"
        )
        optimizer.start_epoch()
        for _ in range(300):
            weight.grad = torch.full_like(weight, gradient)
            optimizer.step()
        assert bool(parts(optimizer, "gamma")[0].any()) == moves


@pytest.mark.parametrize("dampening", [0.0, 0.5])
def test_the_threshold_allows_for_dampening(dampening):
    # From γ = 0 under a constant gradient G the step is η·(1 − dampening)·G/(1 − m) in the long run.
    for gradient, moves in ((0.99, False), (1.01, True)):
        weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = Decomposition(
            [weight],
            torch.optim.SGD,
            lr=0.01,
            momentum=0.5,
            dampening=dampening,
            gamma_penalty=Constant(1.0),
            gamma_update="proximal",
        )
        optimizer.start_epoch()
        # torch's first step is not damped: start with a gradient of 0.
        for g in [0.0, *[gradient] * 100]:
            weight.grad = torch.full_like(weight, g)
            optimizer.step()
        assert bool(parts(optimizer, "gamma")[0].any()) == moves


@pytest.mark.parametrize(("lr", "beta"), [(0.0, torch.inf), (0.1, 0.0), (0.0, 0.0)])
def test_proximal_bears_zeros(lr, beta):
    weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = Decomposition(
        [weight], torch.optim.SGD, lr=lr, sigma_penalty=None, gamma_penalty=Constant(beta), gamma_update="proximal"
    )
    optimizer.start_epoch()
    for g in (0.0, 1.0):
        weight.grad = torch.full_like(weight, g)
        optimizer.step()
    assert torch.allclose(weight, torch.full_like(weight, 1 - 2 * lr))  # σ and γ each move by lr


def test_proximal_leaves_weights_without_a_gradient_alone():
    weight = nn.Parameter(torch.zeros(3))
    group = {"params": [weight], "sigma": [torch.ones(3)], "gamma": [torch.ones(3)]}
    optimizer = Decomposition([group], torch.optim.SGD, lr=0.1, gamma_update="proximal")
    optimizer.start_epoch()
    optimizer.step()
    assert weight.tolist() == [2.0, 2.0, 2.0]


def test_maximize_negates_the_loss_but_not_the_penalties():
    runs = []
    for sign, maximize in ((1.0, False), (-1.0, True)):
        model = nn.Linear(4, 2).double()
        with torch.no_grad():
            model.weight.copy_(torch.arange(8.0).view(2, 4))
            model.bias.fill_(1.0)
        groups = parameter_groups(model, init="random_split", generator=torch.Generator().manual_seed(0))
        optimizer = Decomposition(groups, torch.optim.SGD, lr=0.01, momentum=0.9, maximize=maximize, c1=0.1, c2=0.5)
        for _ in range(3):
            optimizer.start_epoch()
            for _ in range(4):
                (sign * model(torch.ones(1, 4, dtype=torch.float64)).square().sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
        runs.append(parts(optimizer, "sigma") + parts(optimizer, "gamma"))
    assert largest_difference(*runs) < 1e-12
