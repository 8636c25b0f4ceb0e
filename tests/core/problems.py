"""Small problems that the core's tests share."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tnlpad import Decomposition, parameter_groups


def small_network(dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    """Convolutions with bias, BatchNorm and a linear layer, on 3 × 8 × 8 images."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1),
            nn.BatchNorm2d(5),
            nn.ReLU(),
            nn.Conv2d(5, 4, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 10),
        ).to(dtype)


def batches(count: int, dtype: torch.dtype = torch.float64, size: int = 8) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(7)
    return [
        (
            torch.randn(size, 3, 8, 8, dtype=dtype, generator=generator),
            torch.randint(10, (size,), generator=generator),
        )
        for _ in range(count)
    ]


def sgd(model: nn.Module, *, init: str = "independent", **options: object) -> Decomposition:
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3, "c1": 0.05, "c2": 0.6, **options}
    groups = parameter_groups(model, init=init, generator=torch.Generator().manual_seed(3))
    return Decomposition(groups, torch.optim.SGD, **settings)


def adamw(model: nn.Module, **options: object) -> Decomposition:
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(3))
    return Decomposition(groups, torch.optim.AdamW, lr=1e-3, c1=0.05, c2=0.6, **options)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: list[tuple[Tensor, Tensor]], epoch_length: int = 0
) -> list[float]:
    """One pass over the data; starts an epoch every `epoch_length` steps, if given."""
    losses = []
    for step, (images, labels) in enumerate(data):
        if epoch_length and step % epoch_length == 0:
            optimizer.start_epoch()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def parts(optimizer: Decomposition, name: str) -> list[Tensor]:
    """σ, γ or anchor of every decomposed weight, in order."""
    weights = [p for group in optimizer.param_groups if group["decompose"] for p in group["params"]]
    return [optimizer.state[p][name] for p in weights]


def named_parts(optimizer: Decomposition, name: str) -> dict[str, Tensor]:
    names = [n for group in optimizer.param_groups if group["decompose"] for n in group["param_names"]]
    return dict(zip(names, parts(optimizer, name), strict=True))


def everything(model: nn.Module, optimizer: Decomposition) -> list[Tensor]:
    """All that a step may change in the model and in its parts."""
    return [*model.state_dict().values(), *(t for n in ("sigma", "gamma", "anchor") for t in parts(optimizer, n))]


def all_equal(a: Iterable[Tensor], b: Iterable[Tensor]) -> bool:
    a, b = list(a), list(b)
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
