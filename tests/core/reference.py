"""The equations of the paper, slow and literal: the oracle that the fast optimizer is tested against.

Two forms, neither of which uses a closed-form gradient:

- `TwoLeaves`: every weight is the sum of two leaf tensors; autograd differentiates the loss and both penalties.
- `two_branch`: the form of the authors' code, every convolution and linear layer run twice, once with σ and once with
  γ, the outputs added; normalisation is shared.

Both are driven by an ordinary torch optimizer over the leaves. They cost about twice the time and memory of training.
"""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tnlpad.core.penalties import Penalty, strength

LAYERS = (nn.modules.conv._ConvNd, nn.Linear)


def global_norm(tensors: Iterable[Tensor]) -> Tensor:
    """‖·‖ of all tensors as one long vector; autograd gives it the gradient 0 at 0."""
    norm: Tensor = torch.linalg.vector_norm(torch.cat([tensor.flatten() for tensor in tensors]))
    return norm


class Penalties:
    """β1(t)·‖σ − anchor‖ + β2(t)·‖γ‖ by autograd, with the anchor taken at the start of each epoch."""

    def __init__(
        self, sigma: list[Tensor], gamma: list[Tensor], sigma_penalty: Penalty | None, gamma_penalty: Penalty | None
    ) -> None:
        self.sigma, self.gamma = sigma, gamma
        self.sigma_penalty, self.gamma_penalty = sigma_penalty, gamma_penalty
        self.epoch = 0
        self.anchor: list[Tensor] = []

    def start_epoch(self) -> None:
        self.epoch += 1
        self.anchor = [tensor.detach().clone() for tensor in self.sigma]

    def value(self) -> Tensor:
        drift = global_norm(s - a for s, a in zip(self.sigma, self.anchor, strict=True))
        beta1 = strength(self.sigma_penalty, self.epoch, "sigma_penalty")
        beta2 = strength(self.gamma_penalty, self.epoch, "gamma_penalty")
        return beta1 * drift + beta2 * global_norm(self.gamma)


class TwoLeaves:
    """A network whose decomposed weights are σ + γ, two leaves each; call it like the network."""

    def __init__(self, model: nn.Module, sigma: dict[str, Tensor], gamma: dict[str, Tensor]) -> None:
        self.model = model
        self.sigma = {name: value.detach().clone().requires_grad_() for name, value in sigma.items()}
        self.gamma = {name: value.detach().clone().requires_grad_() for name, value in gamma.items()}
        self.ordinary = [p for name, p in model.named_parameters() if name not in sigma]

    def __call__(self, inputs: Tensor) -> Any:
        weights = {name: sigma + self.gamma[name] for name, sigma in self.sigma.items()}
        return functional_call(self.model, weights, (inputs,))


class TwoBranch(nn.Module):
    """One layer as the authors' code has it: the outputs of a σ layer and a γ layer, added."""

    def __init__(self, sigma: nn.Module, gamma: nn.Module) -> None:
        super().__init__()
        self.sigma, self.gamma = sigma, gamma
        self.sigma_only = False

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.sigma(inputs)
        return output if self.sigma_only else output + self.gamma(inputs)


def two_branch(model: nn.Module, sigma: dict[str, Tensor], gamma: dict[str, Tensor]) -> nn.Module:
    """A copy of the network with every convolution and linear layer doubled, holding the given parts by name."""
    doubled = copy.deepcopy(model)
    for name, layer in list(doubled.named_modules()):
        if isinstance(layer, LAYERS):
            branches = TwoBranch(_filled(layer, sigma, name), _filled(layer, gamma, name))
            parent, _, child = name.rpartition(".")
            setattr(doubled.get_submodule(parent), child, branches)
    return doubled


def branches(doubled: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """σ and γ of a two-branch network, under the names their weights have in the ordinary one."""
    sigma: dict[str, Tensor] = {}
    gamma: dict[str, Tensor] = {}
    for name, module in doubled.named_modules():
        if isinstance(module, TwoBranch):
            sigma.update({f"{name}.{key}": value for key, value in module.sigma.named_parameters()})
            gamma.update({f"{name}.{key}": value for key, value in module.gamma.named_parameters()})
    return sigma, gamma


def _filled(layer: nn.Module, values: dict[str, Tensor], prefix: str) -> nn.Module:
    filled = copy.deepcopy(layer)
    with torch.no_grad():
        for name, parameter in filled.named_parameters():
            parameter.copy_(values[f"{prefix}.{name}"])
    return filled
