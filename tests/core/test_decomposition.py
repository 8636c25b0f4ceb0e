"""The optimizer as users use it: modes, epochs, saving, closures, mixed precision, groups."""

import copy
import io
import pickle
import re

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, everything, parts, sgd, small_network, train
from tnlpad import Decomposition, parameter_groups
from tnlpad.core.penalties import Constant, LinearGrowth, PowerDecay

# The weights the model holds


def test_weights_are_the_sum_of_the_parts_after_every_step():
    model = small_network(torch.float32)
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(5, torch.float32))
    weights = optimizer.param_groups[0]["params"]
    sums = [s + g for s, g in zip(parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True)]
    assert all_equal(weights, sums)
    assert any(g.any() for g in parts(optimizer, "gamma"))


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, -1.0])
def test_sigma_weights_holds_sigma_plus_scaled_gamma_and_restores_exactly(scale):
    model = small_network(torch.float32)
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(5, torch.float32))
    before = copy.deepcopy(model.state_dict())
    with optimizer.sigma_weights(gamma_scale=scale):
        for w, s, g in zip(
            optimizer.param_groups[0]["params"], parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True
        ):
            assert torch.equal(w, s + scale * g)
    assert all_equal(list(before.values()), list(model.state_dict().values()))
    optimizer.step()


def test_sigma_weights_restores_after_an_exception_and_nests():
    model = small_network(torch.float32)
    optimizer = sgd(model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(KeyError, match="inside"), optimizer.sigma_weights():
        raise KeyError("inside")
    assert all_equal(list(before.values()), list(model.state_dict().values()))
    with optimizer.sigma_weights():
        sigma = copy.deepcopy(model.state_dict())
        with optimizer.sigma_weights(gamma_scale=1.0):
            assert all_equal(list(before.values()), list(model.state_dict().values()))
        assert all_equal(list(sigma.values()), list(model.state_dict().values()))
    assert all_equal(list(before.values()), list(model.state_dict().values()))


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_gamma_scale_must_be_finite(scale):
    model = small_network()
    optimizer = sgd(model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="must be finite"), optimizer.sigma_weights(gamma_scale=scale):
        pass
    assert all_equal(list(before.values()), list(model.state_dict().values()))


def test_mode_round_trip_is_exact_and_idempotent():
    model = small_network(torch.float32)
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(3, torch.float32))
    before = copy.deepcopy(model.state_dict())
    optimizer.eval()
    optimizer.eval()
    assert all_equal(optimizer.param_groups[0]["params"], parts(optimizer, "sigma"))
    optimizer.train()
    optimizer.train()
    assert all_equal(list(before.values()), list(model.state_dict().values()))


@pytest.mark.parametrize("grad", [True, False])
def test_the_weights_change_within_an_autocast_block(grad):
    """It casts each weight once and would use that cast again."""
    model = small_network(torch.float32).eval()
    optimizer = sgd(model)
    images = batches(1, torch.float32)[0][0]
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        w = model(images)
        with optimizer.sigma_weights():
            sigma = model(images)
        again = model(images)
        optimizer.eval()
        held = model(images)
    with optimizer.sigma_weights(), torch.autocast("cpu", torch.bfloat16):
        expected = model(images)
    assert torch.equal(sigma, expected)
    assert torch.equal(held, expected)
    assert torch.equal(again, w)
    assert not torch.equal(w, expected)


def test_a_frozen_model_can_be_judged():
    model = small_network()
    optimizer = sgd(model)
    model.requires_grad_(False)
    with optimizer.sigma_weights():
        assert all_equal(optimizer.param_groups[0]["params"], parts(optimizer, "sigma"))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_sigma_state_dict_loads_into_an_ordinary_model(mode):
    model = small_network(torch.float32)
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(5, torch.float32))
    getattr(optimizer, mode)()
    ordinary = small_network(torch.float32, seed=9)
    ordinary.load_state_dict(optimizer.sigma_state_dict(model))
    images = batches(1, torch.float32)[0][0]
    model.eval()
    ordinary.eval()
    with optimizer.sigma_weights():
        assert torch.equal(model(images), ordinary(images))


def test_sigma_state_dict_is_a_copy_and_refuses_another_model():
    model = small_network()
    optimizer = sgd(model)
    saved = optimizer.sigma_state_dict(model)
    saved["0.weight"].zero_()
    assert all(s.any() for s in parts(optimizer, "sigma"))
    with pytest.raises(ValueError, match="not a parameter of this Sequential"):
        optimizer.sigma_state_dict(small_network())


def test_sigma_state_dict_follows_the_model_s_own_idea_of_its_state():
    class Named(nn.Linear):
        def get_extra_state(self):
            return {"note": "kept"}

        def set_extra_state(self, state):
            pass

    model = nn.Sequential(Named(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    model.register_state_dict_post_hook(lambda module, state, prefix, meta: state.update(renamed=state.pop("0.weight")))
    optimizer = sgd(model)
    saved = optimizer.sigma_state_dict(model)
    (sigma,) = parts(optimizer, "sigma")
    assert torch.equal(saved["renamed"], sigma)
    assert saved["renamed"].data_ptr() == saved["1.weight"].data_ptr() != sigma.data_ptr()
    assert saved["0._extra_state"] == {"note": "kept"}


def test_sigma_state_dict_has_the_model_s_precision():
    model = small_network(torch.bfloat16)
    saved = sgd(model).sigma_state_dict(model)
    assert {value.dtype for key, value in saved.items() if key.startswith("0.")} == {torch.bfloat16}


# Epochs and penalties


def test_steps_per_epoch_equals_calling_start_epoch():
    data = batches(12)
    a, b = small_network(), small_network()
    by_hand, by_itself = sgd(a), sgd(b, steps_per_epoch=4)
    train(a, by_hand, data, epoch_length=4)
    train(b, by_itself, data)
    assert by_itself.epoch == by_hand.epoch == 3
    assert all_equal(everything(a, by_hand), everything(b, by_itself))
    with pytest.raises(RuntimeError, match="steps_per_epoch=4"):
        by_itself.start_epoch()


def test_the_epoch_is_one_based_and_the_anchor_is_sigma_at_its_start():
    seen = []
    model = small_network()
    optimizer = sgd(model, c2=None, gamma_penalty=lambda epoch: seen.append(epoch) or 1.0)
    optimizer.start_epoch()
    train(model, optimizer, batches(3))
    assert not all_equal(parts(optimizer, "anchor"), parts(optimizer, "sigma"))
    optimizer.start_epoch()
    assert all_equal(parts(optimizer, "anchor"), parts(optimizer, "sigma"))
    assert seen == [1, 2]


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_a_bad_penalty_value_names_the_epoch(value):
    optimizer = sgd(small_network(), c2=None, gamma_penalty=lambda epoch: 1.0 if epoch < 2 else value)
    optimizer.start_epoch()
    with pytest.raises(ValueError, match=f"gamma_penalty is {value} at epoch 2"):
        optimizer.start_epoch()
    assert optimizer.epoch == 1


@pytest.mark.parametrize("value", [None, "strong", [1.0]])
def test_a_penalty_that_is_no_number_is_named(value):
    optimizer = sgd(small_network(), c2=None, gamma_penalty=lambda epoch: value)
    with pytest.raises(TypeError, match=f"gamma_penalty is {re.escape(repr(value))} at epoch 1: .* a number >= 0"):
        optimizer.start_epoch()


def test_an_infinite_penalty_needs_the_proximal_update():
    optimizer = sgd(small_network(), c2=None, gamma_penalty=Constant(torch.inf))
    with pytest.raises(ValueError, match="proximal"):
        optimizer.start_epoch()


def test_a_nan_shows_instead_of_switching_the_penalty_off():
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(1))
    model[0].weight.grad = torch.full_like(model[0].weight, torch.nan)
    optimizer.step()
    model[6].weight.grad = torch.zeros_like(model[6].weight)
    optimizer.step()
    assert model[6].weight.isnan().all()


def test_a_weight_without_a_gradient_is_left_alone():
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    before = everything(model, optimizer)
    before = [t.clone() for t in before]
    optimizer.step()  # no backward: no gradient anywhere
    assert all_equal(before, everything(model, optimizer))
    model[6](torch.randn(2, 36, dtype=torch.float64)).sum().backward()
    optimizer.step()
    unused, used = parts(optimizer, "sigma")[:4], parts(optimizer, "sigma")[4:]
    assert all_equal(unused, parts(optimizer, "anchor")[:4])
    assert not any(torch.equal(s, a) for s, a in zip(used, parts(optimizer, "anchor")[4:], strict=True))


# When a step is refused


def test_step_in_eval_mode_raises():
    optimizer = sgd(small_network())
    optimizer.start_epoch()
    optimizer.eval()
    with pytest.raises(RuntimeError, match=r"holds σ, .*optimizer\.train\(\)"):
        optimizer.step()
    optimizer.train()
    with optimizer.sigma_weights(), pytest.raises(RuntimeError, match=r"sigma_weights\(\).* holds σ, .*Leave"):
        optimizer.step()
    with optimizer.sigma_weights(gamma_scale=0.5), pytest.raises(RuntimeError, match=r"holds σ \+ 0\.5·γ, "):
        optimizer.step()


def test_step_before_the_first_epoch_raises():
    with pytest.raises(RuntimeError, match="call start_epoch"):
        sgd(small_network()).step()


def test_switching_modes_within_a_closure_is_noticed():
    optimizer = sgd(small_network())
    optimizer.start_epoch()
    with pytest.raises(RuntimeError, match=r"optimizer\.train\(\)"):
        optimizer.step(optimizer.eval)


# What PyTorch users do with optimizers


@pytest.mark.parametrize("build", [sgd, adamw])
def test_saving_and_loading_in_the_middle_of_an_epoch_is_bit_equal(build):
    data = batches(30, torch.float32)
    model = small_network(torch.float32)
    optimizer = build(model)
    train(model, optimizer, data[:10], epoch_length=7)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)

    again = small_network(torch.float32, seed=5)
    resumed = build(again)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    assert (resumed.epoch, resumed.steps) == (2, 10)
    assert train(model, optimizer, data[10:]) == train(again, resumed, data[10:])
    assert all_equal(everything(model, optimizer), everything(again, resumed))


def test_a_state_saved_in_either_mode_resumes():
    data = batches(10, torch.float32)
    model = small_network(torch.float32)
    optimizer = sgd(model)
    train(model, optimizer, data[:5], epoch_length=5)
    optimizer.eval()
    saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    optimizer.train()
    again = small_network(torch.float32, seed=5)
    resumed = sgd(again)
    again.load_state_dict(saved["model"])  # holds σ
    resumed.load_state_dict(saved["optimizer"])
    assert train(model, optimizer, data[5:]) == train(again, resumed, data[5:])


def test_two_optimizers_loaded_from_one_state_share_nothing():
    model = small_network()
    optimizer = sgd(model)
    train(model, optimizer, batches(4), epoch_length=4)
    state = optimizer.state_dict()
    twin = small_network()
    other = sgd(twin)
    other.load_state_dict(state)
    before = [t.clone() for t in everything(twin, other)]
    train(model, optimizer, batches(4))
    assert all_equal(before, everything(twin, other))
    momenta = [s["momentum_buffer"] for s in other.base.state.values()]
    assert not {m.data_ptr() for m in momenta} & {
        s["momentum_buffer"].data_ptr() for s in optimizer.base.state.values()
    }


def test_deepcopy_and_pickle_of_model_and_optimizer_go_on_bit_equal():
    data = batches(20, torch.float32)
    model = small_network(torch.float32)
    optimizer = sgd(model)
    torch.optim.lr_scheduler.StepLR(optimizer, 5)  # wraps optimizer.step
    train(model, optimizer, data[:10], epoch_length=5)
    copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    losses = train(model, optimizer, data[10:])
    for model_copy, optimizer_copy in copies:
        assert train(model_copy, optimizer_copy, data[10:]) == losses
        assert all_equal(everything(model, optimizer), everything(model_copy, optimizer_copy))


def test_closure_is_evaluated_on_w_and_its_loss_returned():
    images, labels = batches(1)[0]
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        return loss

    twin = small_network()
    other = sgd(twin)
    other.start_epoch()
    losses = train(twin, other, [(images, labels)] * 3)
    assert [optimizer.step(closure).item() for _ in range(3)] == losses


def test_gradient_accumulation_equals_the_joined_batch():
    (images, labels), *_ = batches(1, size=16)
    results = []
    for pieces in (1, 4):
        model = small_network()
        model[1].eval()  # batch statistics would differ between the pieces
        optimizer = sgd(model)
        optimizer.start_epoch()
        for _ in range(5):
            for x, y in zip(images.chunk(pieces), labels.chunk(pieces), strict=True):
                (nn.functional.cross_entropy(model(x), y) / pieces).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=pieces == 1)
        results.append(everything(model, optimizer))
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(*results, strict=True))


def test_grad_scaler_unscales_before_the_penalties_and_a_skipped_step_changes_nothing():
    data = batches(6, torch.float32)
    model, scaled = small_network(torch.float32), small_network(torch.float32)
    optimizer, scaled_optimizer = sgd(model), sgd(scaled)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for o in (optimizer, scaled_optimizer):
        o.start_epoch()
    train(model, optimizer, data)
    for images, labels in data:
        scaler.scale(nn.functional.cross_entropy(scaled(images), labels)).backward()
        scaler.step(scaled_optimizer)
        scaler.update()
        scaled_optimizer.zero_grad()
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(model.parameters(), scaled.parameters(), strict=True))
    before = [t.clone() for t in everything(scaled, scaled_optimizer)]
    scaled[0].weight.grad = torch.full_like(scaled[0].weight, torch.inf)
    scaler.scale(torch.zeros(()))
    scaler.step(scaled_optimizer)
    scaler.update()
    assert all_equal(before, everything(scaled, scaled_optimizer))
    assert scaled_optimizer.steps == len(data)


def test_autocast():
    model = small_network(torch.float32)
    optimizer = sgd(model)
    optimizer.start_epoch()
    losses = []
    for images, labels in batches(1, torch.float32) * 20:
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.long
def test_a_compiled_model_trains_as_the_plain_one():
    data = batches(5, torch.float32)
    model, twin = small_network(torch.float32), small_network(torch.float32)
    optimizer, other = sgd(model), sgd(twin)
    train(torch.compile(model), optimizer, data, epoch_length=5)
    train(twin, other, data, epoch_length=5)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_add_param_group_later_equals_having_had_it():
    data = batches(6)
    runs = []
    for later in (False, True):
        model = small_network()
        first, second = parameter_groups(model[:6]), parameter_groups(model[6])
        optimizer = Decomposition(first if later else first + second, torch.optim.SGD, lr=0.05, momentum=0.9)
        if later:
            optimizer.add_param_group(second[0])
        train(model, optimizer, data, epoch_length=3)
        runs.append(everything(model, optimizer))
    assert all_equal(*runs)


@pytest.mark.parametrize("groups_first", [True, False])
@pytest.mark.parametrize("added", ["parameters", "named_parameters", "groups"])
def test_groups_with_and_without_names_go_together(groups_first, added):
    """Those of parameter_groups have names, and plain lists of parameters, such as frameworks add, have none."""
    model, head = small_network(), nn.Linear(4, 2).double()
    first = parameter_groups(model) if groups_first else model.parameters()
    more = parameter_groups(head) if added == "groups" else [{"params": getattr(head, added)()}]
    optimizer = Decomposition(first, torch.optim.SGD, lr=0.1)
    optimizer.add_param_group(more[0])
    assert optimizer.param_groups[-1]["params"] == [head.weight, head.bias]
    head.weight.requires_grad_(False)
    optimizer.start_epoch()
    name = "decomposed parameter 0" if not groups_first else "added parameter 0" if added == "parameters" else "weight"
    with pytest.raises(RuntimeError, match=rf"^{name} \(2×4\) is decomposed but no longer"):
        optimizer.step()


def test_groups_without_names_may_be_given_with_those_of_parameter_groups():
    model, criterion = small_network(), nn.Linear(1, 1).double()
    groups = [*parameter_groups(model), {"params": criterion.parameters(), "decompose": False}]
    optimizer = Decomposition(groups, torch.optim.SGD, lr=0.1)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert [group["decompose"] for group in optimizer.param_groups] == [True, False, False]


def test_an_empty_group_is_allowed():
    model = small_network()
    groups = [
        {"params": [], "param_names": []},
        *parameter_groups(model),
        {"params": [], "param_names": [], "decompose": False},
    ]
    optimizer = Decomposition(groups, torch.optim.SGD, lr=0.1)
    before = [p.clone() for p in model.parameters()]
    train(model, optimizer, batches(2), epoch_length=2)
    same = [name for a, (name, b) in zip(before, model.named_parameters(), strict=True) if torch.equal(a, b)]
    assert set(same) <= {"0.bias"}  # BatchNorm follows: its gradient is 0 up to rounding


def test_plain_parameters_are_all_decomposed():
    model = small_network()
    optimizer = Decomposition(model.parameters(), torch.optim.SGD, lr=0.1)
    assert len(parts(optimizer, "sigma")) == len(list(model.parameters()))


@pytest.mark.parametrize("foreach", [True, False])
def test_nesterov_without_penalties_moves_both_parts_alike(foreach):
    model = small_network()
    groups = parameter_groups(model, init="zero")
    options = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "foreach": foreach}
    optimizer = Decomposition(groups, torch.optim.SGD, sigma_penalty=None, gamma_penalty=None, **options)
    before = [s.clone() for s in parts(optimizer, "sigma")]
    train(model, optimizer, batches(3), epoch_length=3)
    for start, sigma, gamma in zip(before, parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True):
        assert torch.allclose(sigma - start, gamma, atol=1e-12)


def test_no_weight_sized_tensor_is_left_over_after_a_step():
    model = small_network()
    optimizer = sgd(model)
    optimizer.start_epoch()
    train(model, optimizer, batches(2))
    assert all(leaf.grad is None for group in optimizer.base.param_groups[:2] for leaf in group["params"])
    kept = [t for state in (*optimizer.state.values(), *optimizer.base.state.values()) for t in state.values()]
    weights = sum(p.numel() for p in optimizer.param_groups[0]["params"])
    ordinary = sum(p.numel() for p in optimizer.param_groups[1]["params"])
    assert sum(t.numel() for t in kept) == 5 * weights + ordinary  # σ, γ, anchor, two momenta


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_loading_and_adding_groups_respect_the_mode(mode):
    model = small_network()
    optimizer = sgd(model)
    train(model, optimizer, batches(3), epoch_length=3)
    state = copy.deepcopy(optimizer.state_dict())
    getattr(optimizer, mode)()
    optimizer.load_state_dict(state)
    extra = nn.Parameter(torch.ones(2))
    group = {"params": [extra], "param_names": ["extra"], "sigma": [torch.ones(2)], "gamma": [torch.ones(2)]}
    optimizer.add_param_group(group)
    share = 1.0 if mode == "train" else 0.0
    weights = [p for g in optimizer.param_groups if g["decompose"] for p in g["params"]]
    for w, s, g in zip(weights, parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True):
        assert torch.equal(w, s + share * g)


def test_load_hooks_run():
    calls = []
    optimizer = sgd(small_network())
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append("before"))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("after"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after"]
    pickle.dumps(optimizer)  # hooks are left behind, as torch's optimizers do


# Arguments and states that are refused


def test_wrong_kinds_of_arguments_say_what_is_wanted():
    weight = nn.Parameter(torch.ones(3))
    for params, kind in (weight, "single tensor"), (small_network(), "Sequential"), ({"weight": weight}, "dict"):
        with pytest.raises(TypeError, match=rf"params is a {kind}: .*parameter_groups\(model\)"):
            Decomposition(params, torch.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="base is SGD"):
        Decomposition([weight], torch.optim.SGD([weight], lr=0.1))
    with pytest.raises(ValueError, match="twice in one group"), pytest.warns(UserWarning, match="duplicate"):
        Decomposition([weight, weight], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="differentiable"):
        Decomposition([weight], torch.optim.SGD, lr=0.1, differentiable=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c1": -1e-4}, "c1=-0.0001.*>= 0"),
        ({"c1": "x"}, "c1='x'.*>= 0"),
        ({"c2": float("nan")}, "c2=nan"),
        ({"sigma_penalty": 3}, r"sigma_penalty=3: .*LinearGrowth\(c1=0.0001\), or None"),
        ({"gamma_penalty": PowerDecay}, r"gamma_penalty=<class .*PowerDecay\(c2=0.6\), or None"),
        ({"c1": 1e-4, "sigma_penalty": LinearGrowth(1e-3)}, "c1=0.0001 and sigma_penalty=LinearGrowth"),
        ({"norm": "layer"}, "norm='layer'"),
        ({"gamma_update": "prox"}, "gamma_update='prox'"),
        ({"gamma_lr_scale": -1.0}, "gamma_lr_scale=-1.0"),
        ({"steps_per_epoch": 0}, "steps_per_epoch=0"),
        ({"steps_per_epoch": 31.25}, "steps_per_epoch=31.25: must be a whole number"),
        ({"steps_per_epoch": float("inf")}, "steps_per_epoch=inf: must be a whole number"),
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


@pytest.mark.parametrize(
    ("options", "of_last"), [({"nesterov": True}, {}), ({}, {"lr": 0.5}), ({}, {"gamma_lr_scale": -1.0})]
)
def test_a_refused_optimizer_leaves_the_model_as_it_is(options, of_last):
    """A second, better call would otherwise split weights that hold a random γ already."""
    model = small_network(torch.float32)
    before = copy.deepcopy(model.state_dict())
    group, ordinary = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(3))
    last = {"params": [group["params"].pop()], "param_names": [group["param_names"].pop()], **of_last}
    group["gamma"].pop()
    settings = {"lr": 0.1, "momentum": 0.9, "gamma_update": "proximal", "working_dtype": torch.bfloat16, **options}
    with pytest.raises(ValueError, match=r"nesterov=False|one lr|gamma_lr_scale=-1"):
        Decomposition([group, last, ordinary], torch.optim.SGD, **settings)
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert all_equal(before.values(), model.state_dict().values())


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


def test_a_state_of_another_base_is_refused_and_changes_nothing():
    model = small_network()
    optimizer = sgd(model)
    before = [t.clone() for t in everything(model, optimizer)]
    with pytest.raises(ValueError, match=r"AdamW.*SGD.*base=AdamW"):
        optimizer.load_state_dict(adamw(small_network()).state_dict())
    assert all_equal(before, everything(model, optimizer))


def test_a_state_of_another_model_or_optimizer_is_refused_and_changes_nothing():
    model = small_network()
    optimizer = sgd(model)
    before = [t.clone() for t in everything(model, optimizer)]
    other = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)).double()
    with pytest.raises(ValueError, match="another model"):
        optimizer.load_state_dict(sgd(other).state_dict())
    with pytest.raises(ValueError, match=r"'base' and 'decomposition' are missing.*state_dict\(\)"):
        optimizer.load_state_dict(torch.optim.SGD(model.parameters(), lr=0.1).state_dict())
    everything_decomposed = Decomposition(
        parameter_groups(small_network(), decompose="all"), torch.optim.SGD, lr=0.1
    ).state_dict()
    with pytest.raises(ValueError, match="another choice"):
        optimizer.load_state_dict(everything_decomposed)
    assert all_equal(before, everything(model, optimizer))
