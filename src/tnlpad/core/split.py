"""Choose the parameters to decompose, and split w into σ + γ before the first step.

Paper: "decompose w randomly into two parts". The authors' code draws σ and γ independently by PyTorch's default
initialisation, so that w starts with twice the usual variance. We offer both, and default to γ = 0. It keeps the
network unchanged, as pretrained weights require, and the paper's random γ shrinks to zero within one or two epochs.

By default only convolutions and linear layers are decomposed, as in the authors' code.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tnlpad.core.sharded import fsdp_modules, is_sharded, shard

Decompose = Literal["conv_linear", "all"]
Init = Literal["zero", "independent", "random_split"]

CONV_LINEAR = (nn.modules.conv._ConvNd, nn.Linear, nn.Bilinear, nn.MultiheadAttention)
OLDER_NORMS = ("weight_g", "weight_u")  # tensors of torch's weight and spectral norm without parametrizations


def parameter_groups(
    model: nn.Module,
    decompose: Decompose = "conv_linear",
    init: Init = "zero",
    generator: torch.Generator | None = None,
) -> list[dict[str, Any]]:
    """Return the model's trainable parameters as groups for `Decomposition`, with the initial split of w into σ + γ.

    The first group is decomposed; the second, if any parameters are left, is ordinary. The groups are plain
    dictionaries: set options such as `lr` or `weight_decay` on them, or split them further, before passing them on.
    The model's weights do not change until `Decomposition` writes w = σ + γ into them.

    Args:
        model: Any module. Parameters that require no gradient are left out; shared ones appear once.
        decompose: "conv_linear" takes the weights and biases of convolutions and linear layers (the input projection
            of `nn.MultiheadAttention` is one); "all" takes every trainable parameter.
        init: "zero" is σ = w, γ = 0. "independent" is σ = w, and γ drawn by each layer's `reset_parameters`.
            "random_split" is σ = α·w, γ = (1 − α)·w with α uniform in [0, 1) for each element.
        generator: Source of the random splits (default: torch's global generator).
    """
    _check_arguments(model, decompose, init)
    modules = fsdp_modules(model)
    owners = dict(_decomposed(model, decompose))
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    for name, parameter in named:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(f"{name} has no shape yet: run one batch through the lazy module before decomposing it.")
    chosen = [(name, p) for name, p in named if p in owners]
    ordinary = [(name, p) for name, p in named if p not in owners]
    if not chosen:
        raise ValueError(
            f"Nothing to decompose: none of the {len(named)} trainable parameters of {type(model).__name__} belongs to "
            'a convolution or linear layer. Unfreeze the layers to train, or use decompose="all".'
        )
    weights = [p for _, p in chosen]
    group = {"params": weights, "param_names": [name for name, _ in chosen], "decompose": True}
    if any(is_sharded(weight) for weight in weights):
        group["fsdp_modules"] = modules
    if init != "zero":
        _check_ranks_agree(init, generator)
        # The optimizer reads σ from the weights when it is built, so weights loaded in between are kept.
        if init == "independent":
            group["gamma"] = _second_draw(weights, owners, generator)
        else:
            group["sigma_share"] = [_uniform(weight, generator) for weight in weights]
    groups = [group]
    if ordinary:
        names = [name for name, _ in ordinary]
        groups.append({"params": [p for _, p in ordinary], "param_names": names, "decompose": False})
    return groups


def _check_arguments(model: object, decompose: Decompose, init: Init) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"parameter_groups({type(model).__name__}): it takes an nn.Module. Pass the model itself.")
    if decompose not in ("conv_linear", "all"):
        raise ValueError(f'decompose={decompose!r}: choose "conv_linear" or "all".')
    if init not in ("zero", "independent", "random_split"):
        raise ValueError(f'init={init!r}: choose "zero", "independent" or "random_split".')


def _check_ranks_agree(init: Init, generator: torch.Generator | None) -> None:
    # Every rank must start from the same σ and γ, but DDP broadcasts only w: different draws would go unnoticed.
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and torch.distributed.get_world_size() > 1 and generator is None:
        raise ValueError(
            f'init="{init}" is random, and each of the {torch.distributed.get_world_size()} processes would draw its '
            "own numbers: pass generator=torch.Generator().manual_seed(seed) with one seed for all of them."
        )


def _decomposed(model: nn.Module, decompose: Decompose) -> Iterator[tuple[nn.Parameter, nn.Module]]:
    """Yield every parameter to decompose, with its module."""
    for module in model.modules():
        if decompose == "all" or isinstance(module, CONV_LINEAR):
            if nn.utils.parametrize.is_parametrized(module) or any(hasattr(module, name) for name in OLDER_NORMS):
                raise ValueError(
                    f"A {type(module).__name__} computes its weight from other parameters, such as a weight or "
                    "spectral norm, and is not linear in them. Remove the parametrization first."
                )
            for parameter in module.parameters(recurse=False):
                yield parameter, module


def _second_draw(
    weights: list[nn.Parameter], owners: dict[nn.Parameter, nn.Module], generator: torch.Generator | None
) -> list[Tensor]:
    """Draw the weights a second time by each layer's own initialisation."""
    second: dict[nn.Parameter, Tensor] = {}
    seed = None if generator is None else int(torch.randint(2**62, (), generator=generator, device=generator.device))
    # Drawn on the CPU, so that a seed means the same split on every device. reset_parameters draws from the global
    # generator, which is restored unless the caller chose it.
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        for module in dict.fromkeys(owners[w] for w in weights):
            fresh = _redraw(module)
            for name, parameter in module.named_parameters(recurse=False):
                second.setdefault(parameter, shard(fresh[name].to(parameter.device), parameter, "γ"))
    return [second[w] for w in weights]


def _redraw(module: nn.Module) -> dict[str, Tensor]:
    """Draw all parameters of a module again by its own initialisation, full if they are sharded, and return them."""
    again = _Redraw(module)
    if again.reset is None:
        raise ValueError(
            f'{type(module).__name__} has no reset_parameters(), which init="independent" needs. Add that method, or '
            'use init="zero" or "random_split".'
        )
    drawn = {name: _cpu_copy(tensor) for name, tensor in chain(again.named_parameters(), again.named_buffers())}
    with torch.no_grad():
        torch.func.functional_call(again, drawn, ())
    return {name.removeprefix("module."): tensor for name, tensor in drawn.items()}


class _Redraw(nn.Module):
    """Reset a module when called, so that `functional_call` can lend it other tensors meanwhile."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)

    def forward(self) -> None:
        assert self.reset is not None
        self.reset()


def _cpu_copy(tensor: Tensor) -> Tensor:
    if is_sharded(tensor):  # to be drawn: the values do not matter
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    return tensor.detach().to("cpu", copy=True)


def _uniform(weight: Tensor, generator: torch.Generator | None) -> Tensor:
    device = "cpu" if generator is None else generator.device
    share = torch.rand(weight.shape, generator=generator, device=device, dtype=torch.float64).to(weight.device)
    return shard(share, weight, "sigma_share")
