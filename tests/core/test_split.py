import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from tests.core.problems import small_network
from tnlpad import Decomposition, parameter_groups


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_convolutions_and_linear_layers_are_decomposed_and_normalisation_is_not():
    decomposed, ordinary = parameter_groups(small_network())
    assert decomposed["param_names"] == ["0.weight", "0.bias", "3.weight", "3.bias", "6.weight", "6.bias"]
    assert ordinary["param_names"] == ["1.weight", "1.bias"]
    assert decomposed["decompose"]
    assert not ordinary["decompose"]


def test_the_model_is_passed_and_not_its_parameters():
    with pytest.raises(TypeError, match=r"parameter_groups\(generator\).*nn\.Module"):
        parameter_groups(small_network().parameters())


def test_all_takes_every_parameter():
    (group,) = parameter_groups(small_network(), decompose="all")
    assert len(group["params"]) == 8


def test_attention_is_linear_and_layer_norm_and_embedding_are_not():
    layer = nn.Sequential(nn.Embedding(5, 8), nn.TransformerEncoderLayer(8, 2, 16))
    decomposed, ordinary = parameter_groups(layer)
    assert "1.self_attn.in_proj_weight" in decomposed["param_names"]
    assert "1.self_attn.out_proj.weight" in decomposed["param_names"]
    assert sorted(ordinary["param_names"]) == [
        "0.weight",
        "1.norm1.bias",
        "1.norm1.weight",
        "1.norm2.bias",
        "1.norm2.weight",
    ]


def test_tied_weights_appear_once_and_stay_tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    groups = parameter_groups(model, init="independent", generator=generator())
    assert len(groups[0]["params"]) == 1
    optimizer = Decomposition(groups, torch.optim.SGD, lr=0.1)
    saved = optimizer.sigma_state_dict(model)
    assert saved.keys() == {"0.weight", "1.weight"}
    assert torch.equal(saved["0.weight"], saved["1.weight"])
    optimizer.start_epoch()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert model[1].weight is model[0].weight


def test_zero_leaves_the_network_as_it_is():
    model = small_network(torch.float32)
    before = [p.clone() for p in model.parameters()]
    optimizer = Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not any(state["gamma"].any() for state in optimizer.state.values())


def test_independent_keeps_sigma_and_draws_gamma_by_the_layers_own_initialisation():
    torch.manual_seed(0)
    model = nn.Linear(400, 300)
    before = model.weight.detach().clone()
    optimizer = Decomposition(parameter_groups(model, init="independent", generator=generator()), torch.optim.SGD, lr=1)
    state = optimizer.state[model.weight]
    assert torch.equal(state["sigma"], before)
    assert torch.equal(model.weight, before + state["gamma"])
    bound = 400**-0.5  # PyTorch's default: uniform within ± 1/√fan_in
    assert state["gamma"].abs().max() <= bound
    assert state["gamma"].std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
    assert abs(torch.corrcoef(torch.stack([before.flatten(), state["gamma"].flatten()]))[0, 1]) < 0.02


def test_random_split_shares_every_element_uniformly():
    torch.manual_seed(0)
    model = nn.Linear(300, 300, bias=False)
    before = model.weight.detach().clone()
    optimizer = Decomposition(
        parameter_groups(model, init="random_split", generator=generator()), torch.optim.SGD, lr=1
    )
    state = optimizer.state[model.weight]
    share = state["sigma"] / before
    assert share.min() >= 0
    assert share.max() < 1.0001
    assert share.mean().item() == pytest.approx(0.5, abs=0.01)
    assert share.var().item() == pytest.approx(1 / 12, abs=0.002)
    assert torch.allclose(model.weight, before, atol=1e-8)


@pytest.mark.parametrize("init", ["independent", "random_split"])
def test_the_split_is_a_function_of_the_generator_and_touches_no_other(init):
    model = small_network()
    state = torch.get_rng_state()
    key = "gamma" if init == "independent" else "sigma_share"
    a, b, c = (parameter_groups(model, init=init, generator=generator(seed))[0][key] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not any(torch.equal(x, y) for x, y in zip(a, c, strict=True))
    torch.manual_seed(5)
    first = parameter_groups(model, init=init)[0][key]
    torch.manual_seed(5)
    assert all(torch.equal(x, y) for x, y in zip(first, parameter_groups(model, init=init)[0][key], strict=True))


def test_the_split_seeds_no_gpu(monkeypatch):
    model, seeded = small_network(), []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    parameter_groups(model, init="independent", generator=generator())
    assert not seeded


@pytest.mark.parametrize("init", ["zero", "independent", "random_split"])
def test_weights_loaded_between_groups_and_optimizer_are_kept(init):
    model = small_network()
    groups = parameter_groups(model, init=init, generator=generator())
    pretrained = small_network(seed=8)
    model.load_state_dict(pretrained.state_dict())
    optimizer = Decomposition(groups, torch.optim.SGD, lr=0.1)
    state = optimizer.state[model[0].weight]
    whole = state["sigma"] if init == "independent" else state["sigma"] + state["gamma"]
    assert torch.allclose(whole, pretrained[0].weight, atol=1e-15)


def test_low_precision_weights_are_split_in_single_precision():
    model = nn.Linear(64, 64).bfloat16()
    before = model.weight.detach().clone()
    optimizer = Decomposition(
        parameter_groups(model, init="random_split", generator=generator()), torch.optim.SGD, lr=1
    )
    state = optimizer.state[model.weight]
    assert torch.equal((state["sigma"] + state["gamma"]).bfloat16(), before)
    assert not torch.equal(state["sigma"], state["sigma"].bfloat16().float())


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("utilities", [nn.utils.parametrizations, nn.utils])
def test_weights_computed_from_other_parameters_are_refused(utilities, norm):
    normalised = getattr(utilities, norm)(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="Remove the parametrization"):
        parameter_groups(nn.Sequential(nn.Linear(3, 3), normalised))


def test_pruned_weights_are_decomposed():
    pruned = prune.random_unstructured(nn.Linear(3, 3), "weight", 0.5)
    (group,) = parameter_groups(pruned)
    assert sorted(group["param_names"]) == ["bias", "weight_orig"]


def test_bilinear_layers_are_decomposed():
    (group,) = parameter_groups(nn.Bilinear(2, 3, 4))
    assert group["param_names"] == ["weight", "bias"]


def test_frozen_parameters_are_left_out():
    model = small_network()
    model[0].requires_grad_(False)
    decomposed, _ = parameter_groups(model)
    assert decomposed["param_names"] == ["3.weight", "3.bias", "6.weight", "6.bias"]


class Scaler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.BatchNorm2d(3), {}, 'Nothing to decompose.*decompose="all"'),
        (nn.Linear(2, 2).requires_grad_(False), {}, "Nothing to decompose: none of the 0 trainable"),
        (nn.LazyLinear(3), {}, "run one batch"),
        (Scaler(), {"decompose": "all", "init": "independent"}, r"Scaler has no reset_parameters\(\)"),
        (nn.Linear(2, 2), {"init": "kaiming"}, "init='kaiming'"),
        (nn.Linear(2, 2), {"decompose": "conv"}, "decompose='conv'"),
    ],
)
def test_what_cannot_be_decomposed_says_why(model, options, message):
    with pytest.raises(ValueError, match=message):
        parameter_groups(model, **options)


def test_parts_given_by_hand_become_the_weights():
    weight = nn.Parameter(torch.zeros(2))
    group = {"params": [weight], "sigma": [torch.tensor([1.0, 2.0])], "gamma": [torch.tensor([0.5, -1.0])]}
    Decomposition([group], torch.optim.SGD, lr=0.1)
    assert weight.tolist() == [1.5, 1.0]
    with pytest.raises(ValueError, match="2 tensors in sigma for 1 parameters"):
        Decomposition([{"params": [weight], "sigma": [weight, weight]}], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match=r"gamma has shape \(1,\) for a parameter of shape \(2,\)"):
        Decomposition([{"params": [weight], "gamma": [torch.ones(1)]}], torch.optim.SGD, lr=0.1)
