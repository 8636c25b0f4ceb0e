"""The paper's recipe for each dataset, as plain data: whoever only wants to know need not load what trains by it.

How SELF and DivideMix are run on each dataset, where the paper that they are compared in says nothing.

SELF: iterations of 100 epochs and then 40 on CIFAR images, the others in proportion. DivideMix: its authors' recipe for
CIFAR images, at a batch of twice their 64 because a batch stands for a labelled and an unlabelled half. What they have
no dataset for is treated as CIFAR-10, with the run's own schedule. Digits were tried out by noisy validation accuracy.

How to train on data that nobody has tuned for: defaults from their size alone, made for two CPU cores.

Nothing here assumes a share of wrong labels. Whoever knows more says so with `--network` and `--set`.

What each method starts from, by dataset and noise: the paper's choices, or where it is silent its authors'.
"""

import dataclasses
from typing import Any

from tnlpad.data.own import DataShape
from tnlpad.methods import METHODS
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.noise.spec import NoiseSpec

PAPER = {"epochs": 100, "learning_rate": 0.01, "decay": 0.1, "momentum": 0.9, "weight_decay": 1e-3}
CIFAR = {"batch_size": 64, "milestones": (40, 80), "crop_padding": 4, "flip": True, **PAPER}
PLAIN = {"batch_size": 32, "milestones": (10, 20), "crop_padding": 0, "flip": False, **PAPER}
PHOTOGRAPHS = {"network": "imagenet_resnet50", "batch_size": 32, "crop_padding": 0, "flip": True, **PAPER}
DATASET_DEFAULTS: dict[str, dict[str, Any]] = {
    "mnist": {"network": "lenet", **PLAIN},
    "fashion_mnist": {"network": "resnet18", **PLAIN},
    "cifar10": {"network": "resnet18", **CIFAR},
    "cifar100": {"network": "resnet50", **CIFAR},
    "cifar10n": {"network": "resnet18", **CIFAR},
    "cifar100n": {"network": "resnet50", **CIFAR},
    # Of epochs, weight decay, decays and augmentation the paper says nothing: those of CIFAR, and the usual crop.
    "food101": {**PHOTOGRAPHS, "learning_rate": 0.001, "milestones": (40, 80), "resize": 128, "crop": 112},
    # The paper's, but for the augmentation, of which it says nothing. It begins with weights from ImageNet.
    "clothing1m": {
        **PHOTOGRAPHS,
        "epochs": 20,
        "learning_rate": 0.001,
        "milestones": (6,),
        "weight_decay": 5e-3,
        "resize": 256,
        "crop": 224,
    },
    # Not in the paper: small enough for every test, long enough to memorise.
    "digits": {
        "network": "small_cnn",
        **PLAIN,
        "batch_size": 64,
        "epochs": 60,
        "milestones": (46,),
    },
}
C2 = {
    "mnist": 2.0,
    "fashion_mnist": 1.5,
    "cifar10": 0.6,
    "cifar100": 0.2,
    "cifar10n": 0.8,
    "cifar100n": 0.2,
    "food101": 0.8,
    "clothing1m": 0.8,
    "digits": 0.5,  # by `tnlpad tune` at 40 % symmetric noise, as JoCoR's λ in method_recipes.py
}


SELF, DIVIDEMIX = ("self", "self+tnlpad"), ("dividemix", "dividemix+tnlpad")
FROM_CLASS_TO_CLASS = ("asymmetric", "pairflip")
CIFAR_DATASETS = ("cifar10", "cifar100", "cifar10n", "cifar100n")
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
        own: dict[str, dict[str, Any]] = {
            **{name: {"epochs": 220} for name in CIFAR_DATASETS},
            "digits": {"milestones": (20,)},
        }
    elif method in DIVIDEMIX:
        own = {**dict.fromkeys(CIFAR_DATASETS, CIFAR_DIVIDEMIX), "digits": {"epochs": 30, "milestones": (23,)}}
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


SMALLEST, LARGEST = 8, 64  # pixels to which image files are brought
STREAMED_BYTES = 1 << 32  # what takes more memory than this is read from its files again in every epoch
MARGIN = 8 / 7  # of a streamed image to the part cut out of it, as 256 to 224
SAMPLES_SEEN = 150_000  # over all epochs, between the fewest and the most of them
FEWEST_EPOCHS, MOST_EPOCHS = 20, 100
DECAY_AFTER = 0.75  # of all epochs
MOST_LOOKS = 50  # at every sample, about: more epochs than that are not all looked at
LEARNING_RATES = {"small_resnet": 0.05, "small_cnn": 0.03, "mlp": 0.03}
# γ is released in the epoch t at which its penalty t^(−c2) falls below ‖ḡ‖, the norm of the averaged gradient.
# benchmarks/own_defaults.py chose this and the rates above by noisy validation accuracy. c2 by that release time, by an
# estimated noise rate, or by both, was no better there than a constant by more than chance, and would cost a first
# training; docs/own_data.md has the numbers.
OWN_C2 = 0.3


def own_recipe(shape: DataShape) -> dict[str, Any]:
    """What `tnlpad.runs.recipes` has for published datasets."""
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(SAMPLES_SEEN / max(1, shape.samples))))
    size, streamed = image_size(shape), _streamed(shape)
    network = _network(shape, size)
    # What is gray may be writing, where a mirrored letter is another one.
    photographs = shape.kind != "features" and shape.channels == 3
    return {
        "network": network,
        "epochs": epochs,
        "batch_size": 32 if shape.samples < 5000 else 64,
        "learning_rate": LEARNING_RATES[network],
        "milestones": (max(1, round(DECAY_AFTER * epochs)),),
        "decay": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "resize": (round(size * MARGIN) if streamed else size) if shape.kind == "files" else None,
        "crop": size if streamed else None,
        "crop_padding": size // 8 if photographs and not streamed else 0,
        "flip": photographs,
    }


def looks_every(epochs: int) -> int:
    """After how many epochs every sample is looked at, for its scores."""
    return max(1, epochs // MOST_LOOKS)


def image_size(shape: DataShape) -> int:
    """Pixels of the square that a network sees: as they are in memory, up to 64 from files."""
    if shape.kind != "files":
        return shape.height
    return min(LARGEST, max(SMALLEST, shape.height))


def _streamed(shape: DataShape) -> bool:
    return shape.kind == "files" and shape.samples * shape.channels * image_size(shape) ** 2 > STREAMED_BYTES


def _network(shape: DataShape, size: int) -> str:
    if shape.kind == "features":
        return "mlp"
    sides = (shape.height, shape.width) if shape.kind == "images" else (size, size)
    return "small_cnn" if all(SMALLEST // 2 < side <= SMALLEST for side in sides) else "small_resnet"


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
