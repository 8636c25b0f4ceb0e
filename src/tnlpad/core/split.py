"""Which parameters are decomposed, and how w is split into σ + γ before the first step.

Paper: "decompose w randomly into two parts". The authors' code draws σ and γ independently by PyTorch's default
initialisation, so that w starts with twice the usual variance. We offer both, and default to γ = 0: it leaves the
network as it is, which is the only safe choice for pretrained weights, and the random γ of the paper is driven to zero
within the first one or two epochs anyway.

Only convolutions and linear layers are decomposed by default, as in the authors' code; normalisation parameters stay
ordinary.
"""

import copy
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

Decompose = Literal["conv_linear", "all"]
Init = Literal["zero", "independent", "random_split"]

CONV_LINEAR = (nn.modules.conv._ConvNd, nn.Linear, nn.Bilinear, nn.MultiheadAttention)


def parameter_groups(
    model: nn.Module,
    decompose: Decompose = "conv_linear",
    init: Init = "zero",
    generator: torch.Generator | None = None,
) -> list[dict[str, Any]]:
    """The model's trainable parameters as groups for `Decomposition`, with the initial split of w into σ + γ.

    The first group is decomposed; the second, if there is anything left, is ordinary. The groups are plain
    dictionaries: set options such as `lr` or `weight_decay` on them, or split them further, before handing them over.
    The model's weights are not touched here; `Decomposition` writes w = σ + γ into them.

    Args:
        model: Any module. Parameters that require no gradient are left out; shared ones appear once.
        decompose: "conv_linear" takes the weights and biases of convolutions and linear layers (the input projection
            of `nn.MultiheadAttention` is one); "all" takes every trainable parameter.
        init: "zero" is σ = w, γ = 0. "independent" is σ = w and γ a second draw by each layer's `reset_parameters`.
            "random_split" is σ = α·w, γ = (1 − α)·w with α uniform in [0, 1) for each element.
        generator: Source of the random splits; the global generator when not given.
    """
    _check_choices(decompose, init)
    owners = dict(_decomposed(model, decompose))
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    for name, parameter in named:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(f"{name} has no shape yet: run one batch through the lazy module before decomposing it.")
    chosen = [(name, p) for name, p in named if p in owners]
    ordinary = [(name, p) for name, p in named if p not in owners]
    if not chosen:
        raise ValueError(
            f"Nothing to decompose: of {len(named)} trainable parameters of {type(model).__name__}, none belongs to a "
            'convolution or linear layer. Unfreeze the layers to train, or use decompose="all".'
        )
    weights = [p for _, p in chosen]
    group = {"params": weights, "param_names": [name for name, _ in chosen], "decompose": True}
    if init != "zero":
        _check_ranks_agree(init, generator)
        # σ is read from the weights when the optimizer is built, so that weights loaded in between are not lost.
        if init == "independent":
            group["gamma"] = _second_draw(weights, owners, generator)
        else:
            group["sigma_share"] = [_uniform(weight, generator) for weight in weights]
    groups = [group]
    if ordinary:
        names = [name for name, _ in ordinary]
        groups.append({"params": [p for _, p in ordinary], "param_names": names, "decompose": False})
    return groups


def _check_choices(decompose: str, init: str) -> None:
    if decompose not in ("conv_linear", "all"):
        raise ValueError(f'decompose={decompose!r}: choose "conv_linear" or "all".')
    if init not in ("zero", "independent", "random_split"):
        raise ValueError(f'init={init!r}: choose "zero", "independent" or "random_split".')


def _check_ranks_agree(init: Init, generator: torch.Generator | None) -> None:
    # Every rank must start from the same σ and γ, and DDP only broadcasts w: a rank's own draw would go unnoticed.
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and torch.distributed.get_world_size() > 1 and generator is None:
        raise ValueError(
            f'init="{init}" draws numbers, and each of the {torch.distributed.get_world_size()} processes would draw '
            "its own: pass generator=torch.Generator().manual_seed(seed) with one seed for all of them."
        )


def _decomposed(model: nn.Module, decompose: Decompose) -> Iterator[tuple[nn.Parameter, nn.Module]]:
    """Every parameter to decompose, with the module that can draw it anew."""
    for module in model.modules():
        if decompose == "all" or isinstance(module, CONV_LINEAR):
            _check_plain(module)
            for parameter in module.parameters(recurse=False):
                yield parameter, module


def _check_plain(module: nn.Module) -> None:
    if nn.utils.parametrize.is_parametrized(module) or hasattr(module, "weight_g"):
        raise ValueError(
            f"A {type(module).__name__} computes its weight from other parameters (weight or spectral norm, say), and "
            "is not linear in them: σ + γ would mean something else. Remove the parametrization first."
        )


def _second_draw(
    weights: list[nn.Parameter], owners: dict[nn.Parameter, nn.Module], generator: torch.Generator | None
) -> list[Tensor]:
    """What each layer's own initialisation gives a second time."""
    second: dict[nn.Parameter, Tensor] = {}
    seed = None if generator is None else int(torch.randint(2**62, (), generator=generator, device=generator.device))
    # Drawn on the CPU, so that a seed means the same split on every device; reset_parameters knows only the global
    # generator, which is put back unless it was the one asked for.
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        for module in dict.fromkeys(owners[w] for w in weights):
            fresh = _redraw(module)
            for name, parameter in module.named_parameters(recurse=False):
                second.setdefault(parameter, getattr(fresh, name).detach())
    return [second[w].to(w.device) for w in weights]


def _redraw(module: nn.Module) -> nn.Module:
    # A parameter may be shared with another module and its gradient or hooks are of no use here: copy the layer alone.
    fresh = copy.deepcopy(module).cpu()
    reset = getattr(fresh, "reset_parameters", None) or getattr(fresh, "_reset_parameters", None)
    if reset is None:
        raise ValueError(
            f'{type(module).__name__} has no reset_parameters(), so init="independent" cannot draw its weights a '
            'second time. Give it that method, or use init="zero" or "random_split".'
        )
    with torch.no_grad():
        reset()
    return fresh


def _uniform(weight: Tensor, generator: torch.Generator | None) -> Tensor:
    device = "cpu" if generator is None else generator.device
    return torch.rand(weight.shape, generator=generator, device=device, dtype=torch.float64).to(weight.device)
