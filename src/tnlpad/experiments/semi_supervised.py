"""How SELF and DivideMix are run on each dataset, where the paper that they are compared in says nothing.

SELF: iterations of 100 epochs and then 40 on CIFAR images, the others in proportion. DivideMix: its authors' recipe for
CIFAR images, at a batch of twice their 64 because a batch stands for a labelled and an unlabelled half. What they have
no dataset for is treated as CIFAR-10, with the run's own schedule. Digits were tried out by noisy validation accuracy.
"""

from typing import Any

from tnlpad.noise.spec import NoiseSpec

SELF, DIVIDEMIX = ("self", "self+tnlpad"), ("dividemix", "dividemix+tnlpad")
FROM_CLASS_TO_CLASS = ("asymmetric", "pairflip")
CIFAR = ("cifar10", "cifar100", "cifar10n", "cifar100n")
CIFAR_DIVIDEMIX: dict[str, Any] = {
    "batch_size": 128,
    "epochs": 300,
    "learning_rate": 0.02,
    "milestones": (151,),  # "from epoch 150", of epochs that count from 0
    "weight_decay": 5e-4,
}


def run_defaults(method: str, dataset: str) -> dict[str, Any]:
    """What of a run's recipe is another for this method."""
    if method in SELF:
        own: dict[str, dict[str, Any]] = {**{name: {"epochs": 220} for name in CIFAR}, "digits": {"milestones": (20,)}}
    elif method in DIVIDEMIX:
        own = {**dict.fromkeys(CIFAR, CIFAR_DIVIDEMIX), "digits": {"epochs": 30, "milestones": (23,)}}
    else:
        return {}
    return own.get(dataset, {})


def option_defaults(method: str, dataset: str, spec: NoiseSpec) -> dict[str, Any]:
    """The method's own options where they depend on dataset or noise."""
    if method in SELF:
        return {"ema_decay": 0.97, "consistency_rampup": 2} if dataset == "digits" else {}
    if method in DIVIDEMIX:
        rate, hundred = spec.noise_rate or 0.0, dataset.startswith("cifar100")
        options = {
            "warmup_entropy": spec.kind in FROM_CLASS_TO_CLASS,
            "lambda_u": _lambda_u(hundred, spec),
            "warmup_epochs": 30 if hundred else 10,
            "averaged_losses": 5 if rate >= 0.9 else 1,
        }
        return options | ({"warmup_epochs": 5, "rampup_epochs": 8} if dataset == "digits" else {})
    return {}


def _lambda_u(hundred: bool, spec: NoiseSpec) -> float:
    """As the authors chose it from the rate of symmetric noise, of which they have 20, 50, 80 and 90 %.

    Theirs are shares of labels drawn anew, of which every tenth stays right: 20 % are 18 % wrong ones. Labels
    whose noise has no rate, such as people's, are treated as at a low one.
    """
    rate = spec.noise_rate or 0.0
    if hundred:
        return 25.0 if rate < 0.35 else 150.0
    if spec.kind in FROM_CLASS_TO_CLASS or rate < 0.35:
        return 0.0
    return 50.0 if rate >= 0.9 else 25.0
