"""The paper's recipe for each dataset, as plain data: whoever only wants to know need not load what trains by it."""

from typing import Any

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
