"""What each method starts from, by dataset and noise: the paper's choices, or where it is silent its authors'."""

import dataclasses
from typing import Any

from tnlpad.experiments.own_recipe import C2 as OWN_C2
from tnlpad.experiments.recipes import C2
from tnlpad.experiments.semi_supervised import option_defaults
from tnlpad.methods import METHODS
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.noise.spec import NoiseSpec

# Where labels are wrong as published, the share that methods may assume. Clothing1M's comes from the images that have
# a label of both kinds; Food-101's nobody knows, and this is a guess.
WRONG_AS_PUBLISHED = {
    "food101": 0.2,
    "clothing1m": 0.385,
    # Counted by the authors of CIFAR-N, who had people label images that have labels.
    "cifar10n aggregate": 0.0901,
    "cifar10n random1": 0.1723,
    "cifar10n random2": 0.1812,
    "cifar10n random3": 0.1764,
    "cifar10n worse": 0.4021,
    "cifar100n fine": 0.4020,
}
# Not in the paper: what each method's authors use, with the datasets that they do not have treated as the nearest one.
# For those not named it is CIFAR-10, whose epochs are taken as shares of 100: a run may be too short for them.
COTEACHING_PLUS_START = {
    "mnist": 0,
    "fashion_mnist": 5,
    "cifar100": 5,
    "cifar100n": 5,
    "food101": 5,
    "digits": 20,
}
CO_LAMBDA = {  # of JoCoR
    "mnist": 0.95,
    "fashion_mnist": 0.9,
    "cifar100": 0.85,
    "cifar100n": 0.85,
    "food101": 0.85,
    "digits": 0.5,
}
GRAY = ("mnist", "fashion_mnist", "digits")


def method_options(method: str, dataset: str, protocol: str, spec: NoiseSpec, epochs: int) -> dict[str, Any]:
    """Its own configuration, for a recipe of so many epochs."""
    options = dataclasses.asdict(METHODS[method].config()) | option_defaults(method, dataset, spec)
    if _decomposes(method):
        options["c2"] = C2.get(dataset, OWN_C2)
        if protocol == "authors":
            options["judge_by"] = "sigma_chosen_by_w"
    elif method == "coteaching_plus":
        options["init_epoch"] = COTEACHING_PLUS_START.get(dataset, epochs // 5)
    elif method == "jocor":
        heavy = dataset in ("cifar10", "cifar10n") and (spec.noise_rate or 0.0) >= 0.8
        options["co_lambda"] = 0.65 if heavy else CO_LAMBDA.get(dataset, options["co_lambda"])
    elif method == "adacorr":
        options["start_epoch"] = start = _adacorr_start(dataset, spec, epochs)
        options["update_epoch"] = start + (5 if dataset in GRAY else max(1, epochs // 20))
    elif method == "sigua" and dataset in GRAY and spec.kind == "pairflip":
        options |= {"sigua_scale": 0.001, "sigua_rate": 0.7}
    return options


def _adacorr_start(dataset: str, spec: NoiseSpec, epochs: int) -> int:
    """Earlier where wrong labels are learnt early: by the gray datasets, from similar classes, under heavy noise."""
    heavy = (spec.noise_rate or 0.0) >= 0.8
    if dataset in GRAY:
        return 5 if heavy or spec.kind == "asymmetric" else 10
    if dataset.startswith("cifar100") or dataset == "food101":
        return 30 if heavy else 25
    return epochs // (5 if heavy or spec.kind == "asymmetric" else 4)


def options_for_weights(method: str, pretrained: str | None) -> dict[str, Any]:
    """What goes with pretrained weights: no random γ, in which all that they know would drown."""
    if not _decomposes(method):
        return {}
    return {"init": METHODS[method].config().init if pretrained is None else "zero"}


def _decomposes(method: str) -> bool:
    """TNLPAD, alone or in a combination."""
    return issubclass(METHODS[method].config, TnlpadConfig)


def assumed_rate(method: str, dataset: str, spec: NoiseSpec) -> float | None:
    """The share of wrong labels that a method may assume; None if nobody knows."""
    if spec.noise_rate is None:
        return WRONG_AS_PUBLISHED.get(f"{dataset} {spec.human}" if spec.human else dataset)
    # The authors of JoCoR halve it for asymmetric noise, where half of the classes keep their labels.
    return spec.noise_rate / 2 if method == "jocor" and spec.kind == "asymmetric" else spec.noise_rate
