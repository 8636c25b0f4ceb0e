"""Default settings of a run: the paper's for each published dataset, others by the size of a user's own data.

Where the paper is silent, the defaults of a method are those of its own authors. A dataset that they did not use is
treated as the most similar one that they did, CIFAR-10 if in doubt. Defaults for user data never assume a noise rate.
"""

import dataclasses
import inspect
import math
from typing import TYPE_CHECKING, Any

from tnlpad.data.cifar_n import wrong_label_share
from tnlpad.paper import cells

# Methods and networks are imported within functions, because reports read recipes without loading torch.
if TYPE_CHECKING:
    from tnlpad.data.own import DataShape
    from tnlpad.noise.spec import NoiseSpec

# Published datasets ---------------------------------------------------------------------------------------------------

COMMON_DEFAULTS: dict[str, Any] = {
    "batches_per_epoch": None,
    "decay_takes_effect": "in",
    # The paper does not say which it used for Clothing1M. Noisy, as for its other datasets.
    "validation": "noisy",
    "validation_fraction": 0.1,
    "subset": None,
    "resize": None,
    "crop": None,
    "cutout": 0,
    "instance_inputs": "raw",
    "legacy_streams": False,
    "precision": "float32",
    "compiled": False,
    "patience": None,
}
PAPER = {"epochs": 100, "learning_rate": 0.01, "decay": 0.1, "momentum": 0.9, "weight_decay": 1e-3}
CIFAR = {"batch_size": 64, "milestones": (40, 80), "crop_padding": 4, "flip": True, **PAPER}
GRAY = {"batch_size": 32, "milestones": (10, 20), "crop_padding": 0, "flip": False, **PAPER}
PHOTOGRAPHS = {"batch_size": 32, "crop_padding": 0, "flip": True, **PAPER, "learning_rate": 0.001}
_RECIPES: dict[str, dict[str, Any]] = {
    "mnist": GRAY,
    "fashion_mnist": GRAY,
    "cifar10": CIFAR,
    "cifar100": CIFAR,
    "cifar10n": CIFAR,
    "cifar100n": CIFAR,
    # The paper gives no epochs, weight decay, milestones or augmentation: those of CIFAR, and the usual crop.
    "food101": {**PHOTOGRAPHS, "milestones": (40, 80), "resize": 128, "crop": 112},
    # The paper's, except for the augmentation, which it does not give.
    "clothing1m": {
        **PHOTOGRAPHS,
        "epochs": 20,
        "milestones": (6,),
        "weight_decay": 5e-3,
        "resize": 256,
        "crop": 224,
    },
    # Not in the paper: small enough for every test, long enough to memorise wrong labels.
    "digits": {**GRAY, "batch_size": 64, "epochs": 60, "milestones": (46,)},
}
# CIFAR-100N is not in the paper: as CIFAR-100.
_NETWORKS = {**cells.NETWORKS, "cifar100n": cells.NETWORKS["cifar100"]}
C2 = {**cells.C2, "cifar100n": cells.C2["cifar100"]}
DATASET_DEFAULTS = {name: {"network": _NETWORKS[name], **recipe} for name, recipe in _RECIPES.items()}
# The ImageNet weights that were common when the paper appeared; resnet50-11ad3fa6.pth comes from a stronger recipe.
PRETRAINED = {("clothing1m", "imagenet_resnet50"): "resnet50-0676ba61.pth"}
# Published labels that are partly wrong: the noise rate that methods may assume. Clothing1M's was counted on images
# that have both a clean and a noisy label. Food-101's is unknown, and this is a guess.
WRONG_AS_PUBLISHED = {
    "food101": 0.2,
    "clothing1m": 0.385,
}
NEEDS_NOISE_RATE = ("coteaching", "coteaching_plus", "jocor", "sigua", "cnlcu", "cnlcu_hard", "cdr")
PAPER_LABEL_SETS = ("random1", "random2", "random3", "worse")  # of CIFAR-10N

# User data, for two CPU cores -----------------------------------------------------------------------------------------

MIN_PIXELS, MAX_PIXELS = 8, 64  # side to which image files are resized
STREAMED_BYTES = 1 << 32  # image files that need more memory are read again in every epoch
RESIZE_MARGIN = 8 / 7  # side of a streamed image, relative to its crop: as 256 to 224
SAMPLES_SEEN = 150_000  # over all epochs, within the limits of the next line
MIN_EPOCHS, MAX_EPOCHS = 20, 100
DECAY_AFTER = 0.75  # share of the epochs
MAX_SCORED_EPOCHS = 50  # approximately: longer runs score the samples in every second epoch, or every third, ...
LEARNING_RATES = {"small_resnet": 0.05, "small_cnn": 0.03}
CHANNELS_LAST = ("small_resnet", "resnet18")  # networks whose steps are faster with this layout on a CPU
# Features of pretrained networks, texts and tables. benchmarks/head_settings.py chose the settings of heads by
# out-of-fold accuracy on noisy labels, on other data than the photographs of benchmarks/features.py.
ROWS = ("features", "text", "table")  # kinds of data that are trained on as rows of numbers
FOLDS = 5
MAX_JUDGEMENTS = 30_000_000  # samples times classes; beyond that, folds would take hours
FEW_ROWS = 500  # below that, an epoch of large batches has too few steps
HEAD_SAMPLES_SEEN = 100_000  # over all epochs, within the limits of the next line
MIN_HEAD_EPOCHS, MAX_HEAD_EPOCHS = 20, 60
REPEATS = {3: 10_000, 2: 30_000, 1: math.inf}  # repeats: largest number of samples
HEADS: dict[str, Any] = {
    "network": "head",
    "batch_size": 128,
    "learning_rate": 0.01,
    "decay": 0.1,
    "momentum": 0.9,
    "weight_decay": 0.04,
}
# Training a pretrained network: small steps, as the paper's for Clothing1M, and a few epochs. With steps ten times as
# large, EfficientNet-Lite0 diverges on 400 photographs.
FINETUNE_SAMPLES_SEEN = 30_000  # over all epochs, within the limits of the next line
MIN_FINETUNE_EPOCHS, MAX_FINETUNE_EPOCHS = 5, 20
FINETUNE: dict[str, Any] = {
    "batch_size": 32,
    "learning_rate": 0.001,
    "decay": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-3,
}
# γ is released in the epoch t in which its penalty t^(−c2) falls below ‖ḡ‖, the norm of the averaged gradient.
# benchmarks/own_defaults.py chose c2 and the learning rates by noisy validation accuracy. A c2 derived from that epoch,
# from an estimated noise rate, or from both, was not significantly better than a constant and needs a first training;
# docs/own_data.md has the numbers.
OWN_C2 = 0.3

# Methods --------------------------------------------------------------------------------------------------------------

SELF, DIVIDEMIX = ("self", "self+tnlpad"), ("dividemix", "dividemix+tnlpad")
CIFAR_DATASETS = ("cifar10", "cifar100", "cifar10n", "cifar100n")
GRAY_DATASETS = ("mnist", "fashion_mnist", "digits")
SIMILAR_CLASSES = ("asymmetric", "pairflip")  # kinds of noise that confuse a class with one other
# SELF: iterations of 100 epochs and then 40. Digits were tuned by noisy validation accuracy, for DivideMix as well.
SELF_RUNS: dict[str, dict[str, Any]] = {
    **{name: {"epochs": 220} for name in CIFAR_DATASETS},
    "digits": {"milestones": (20,)},
}
# DivideMix: its authors' recipe, at twice their batch of 64 since half of a batch is labelled and half is not.
_DIVIDEMIX_CIFAR: dict[str, Any] = {
    "batch_size": 128,
    "epochs": 300,
    "learning_rate": 0.02,
    "milestones": (151,),  # "from epoch 150", counted from 0
    "weight_decay": 5e-4,
}
DIVIDEMIX_RUNS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(CIFAR_DATASETS, _DIVIDEMIX_CIFAR),
    "digits": {"epochs": 30, "milestones": (23,)},
}
# Datasets that the authors of some methods did not use, and the one that each is treated as.
SIMILAR = {"cifar10n": "cifar10", "cifar100n": "cifar100", "food101": "cifar100"}
# The first epoch of Co-teaching+'s second phase; others: a fifth of the epochs.
COTEACHING_PLUS_START = {"mnist": 0, "fashion_mnist": 5, "cifar100": 5, "digits": 20}
# λ of JoCoR, by `tnlpad tune` at 40 % symmetric noise in short runs (benchmarks/records/jocor_lambda-*.json), for all
# kinds and rates of noise. Digits were tuned in the same way.
CO_LAMBDA = {"mnist": 0.1, "fashion_mnist": 0.3, "cifar10": 0.3, "cifar100": 0.3, "digits": 0.5}


def dataset_defaults(dataset: "str | DataShape", backbone: str | None = None, finetune: bool = False) -> dict[str, Any]:
    """Return the recipe of a published dataset, or one for user data of this shape, or for its features."""
    if isinstance(dataset, str):
        return DATASET_DEFAULTS[dataset]
    if finetune and backbone is not None:
        return finetune_recipe(dataset, backbone)
    if backbone is not None or dataset.kind in ROWS:
        return feature_recipe(dataset)
    return own_recipe(dataset)


def feature_recipe(shape: "DataShape") -> dict[str, Any]:
    """Return the recipe for features, which are judged out of fold."""
    return {
        **HEADS,
        "batch_size": 32 if shape.samples < FEW_ROWS else HEADS["batch_size"],
        **_schedule(shape.samples, HEAD_SAMPLES_SEEN, MIN_HEAD_EPOCHS, MAX_HEAD_EPOCHS),
        "folds": FOLDS if shape.samples * shape.classes <= MAX_JUDGEMENTS else None,
        "repeats": next(repeats for repeats, limit in REPEATS.items() if shape.samples <= limit),
        "resize": None,
        "crop": None,
        "crop_padding": 0,
        "flip": False,
    }


def finetune_recipe(shape: "DataShape", backbone: str) -> dict[str, Any]:
    """Return the recipe for training a pretrained network, which needs few epochs and small steps."""
    from tnlpad.features.backbone import network_of, side_for

    network = network_of(backbone)
    return {
        **FINETUNE,
        "network": network,
        **_schedule(shape.samples, FINETUNE_SAMPLES_SEEN, MIN_FINETUNE_EPOCHS, MAX_FINETUNE_EPOCHS),
        "flip": shape.channels == 3,
        **finetune_images(shape, side_for(network, shape)),
    }


def finetune_images(shape: "DataShape", pixels: int, memory: int = STREAMED_BYTES) -> dict[str, Any]:
    """Return the settings for images of this side: cropped at random, and streamed if memory would not hold them."""
    return {"resize": pixels} | _images(shape, pixels, 3, memory)


def own_recipe(shape: "DataShape") -> dict[str, Any]:
    """Choose network, epochs, rates and augmentation by the size of the data."""
    network = _own_network(shape, image_size(shape))
    return {
        "network": network,
        **_schedule(shape.samples, SAMPLES_SEEN, MIN_EPOCHS, MAX_EPOCHS),
        "batch_size": 32 if shape.samples < 5000 else 64,
        "learning_rate": LEARNING_RATES[network],
        "decay": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        # Gray images may show writing, and a mirrored letter is a different one.
        "flip": shape.channels == 3,
        **own_images(shape),
    }


def _schedule(samples: int, samples_seen: int, least: int, most: int) -> dict[str, Any]:
    """Return as many epochs as show about `samples_seen` samples, within limits, and the epoch of the decay."""
    epochs = min(most, max(least, round(samples_seen / max(1, samples))))
    return {"epochs": epochs, "milestones": (max(1, round(DECAY_AFTER * epochs)),)}


def own_images(shape: "DataShape", memory: int = STREAMED_BYTES) -> dict[str, Any]:
    """Return the size of images; files that memory would not hold when decoded are streamed, and cropped at random."""
    size = image_size(shape)
    return {"resize": size if shape.kind == "files" else None} | _images(shape, size, shape.channels, memory)


def _images(shape: "DataShape", side: int, channels: int, memory: int) -> dict[str, Any]:
    """Return crop and padding for images of this side, and the size from which streamed ones are cropped."""
    if shape.kind == "files" and decoded_bytes(shape, side, channels) > memory:
        return {"resize": round(side * RESIZE_MARGIN), "crop": side, "crop_padding": 0}
    return {"crop": None, "crop_padding": side // 8 if shape.channels == 3 else 0}


def decoded_bytes(shape: "DataShape", side: int, channels: int) -> int:
    """Return the memory of the training images when they are decoded to squares."""
    return shape.samples * channels * side**2


def image_size(shape: "DataShape") -> int:
    """Return the height of the network's input in pixels; image files are resized to 8 to 64."""
    return min(MAX_PIXELS, max(MIN_PIXELS, shape.height)) if shape.kind == "files" else shape.height


def _own_network(shape: "DataShape", size: int) -> str:
    sides = (shape.height, shape.width) if shape.kind == "images" else (size, size)
    return "small_cnn" if all(MIN_PIXELS // 2 < side <= MIN_PIXELS for side in sides) else "small_resnet"


def scoring_interval(epochs: int) -> int:
    """Return the number of epochs between two scorings of user data."""
    return max(1, epochs // MAX_SCORED_EPOCHS)


def network_defaults(network: str, dataset: str, protocol: str) -> dict[str, Any]:
    """Return the padding of the stem, as usual or as in the authors' code, and the pretrained weights."""
    from tnlpad.networks import NETWORKS

    has_stem = "stem_padding" in inspect.signature(NETWORKS[network]).parameters
    padding = 0 if protocol == "authors" else 1
    return {"stem_padding": padding if has_stem else None, "pretrained": PRETRAINED.get((dataset, network))}


def device_defaults(device: str, network: str, *, own_images: bool = False) -> dict[str, Any]:
    """Return precision and compilation for a GPU, and the layout of user images for a CPU."""
    if not device.startswith("cuda"):
        return {"channels_last": True} if own_images and network in CHANNELS_LAST else {}
    # LeNet's layers are too small for tensor cores, and have fused kernels in float32.
    return {"precision": "float32" if network == "lenet" else "bfloat16", "compiled": True}


def run_defaults(method: str, dataset: str) -> dict[str, Any]:
    """Return the fields of a run that a method changes on this dataset."""
    runs = SELF_RUNS if method in SELF else DIVIDEMIX_RUNS if method in DIVIDEMIX else {}
    return runs.get(dataset, {})


def method_options(method: str, dataset: str, protocol: str, spec: "NoiseSpec", epochs: int) -> dict[str, Any]:
    """Return the method's own options for this dataset, noise and number of epochs."""
    from tnlpad.methods import METHODS

    options = dataclasses.asdict(METHODS[method].config())
    heavy, similar = (spec.noise_rate or 0.0) >= 0.8, SIMILAR.get(dataset, dataset)
    if _decomposes(method):
        options["c2"] = C2.get(dataset, OWN_C2)
        if protocol == "authors":
            options["judge_by"] = "sigma_chosen_by_w"
    if method in SELF and dataset == "digits":
        options |= {"ema_decay": 0.97, "consistency_rampup": 2}
    elif method in DIVIDEMIX:
        options |= _dividemix_options(dataset, spec)
    elif method == "coteaching_plus":
        options["init_epoch"] = COTEACHING_PLUS_START.get(similar, epochs // 5)
    elif method == "jocor":
        options["co_lambda"] = CO_LAMBDA.get(similar, options["co_lambda"])
    elif method == "adacorr":
        options["start_epoch"] = start = _adacorr_start(similar, heavy or spec.kind == "asymmetric", heavy, epochs)
        options["update_epoch"] = start + (5 if dataset in GRAY_DATASETS else max(1, epochs // 20))
    elif method == "sigua" and dataset in GRAY_DATASETS and spec.kind == "pairflip":
        options |= {"sigua_scale": 0.001, "sigua_rate": 0.7}
    return options


def _dividemix_options(dataset: str, spec: "NoiseSpec") -> dict[str, Any]:
    """Return options by noise rate; noise without one, such as people's, counts as a low rate.

    The authors chose λ_u at 20, 50, 80 and 90 % symmetric noise. Theirs are shares of labels that are drawn again, of
    which every tenth stays right: their 20 % are 18 % wrong labels.
    """
    rate, hundred_classes = spec.noise_rate or 0.0, dataset.startswith("cifar100")
    if hundred_classes:
        lambda_u = 25.0 if rate < 0.35 else 150.0
    elif spec.kind in SIMILAR_CLASSES or rate < 0.35:
        lambda_u = 0.0
    else:
        lambda_u = 50.0 if rate >= 0.9 else 25.0
    return {
        "warmup_entropy": spec.kind in SIMILAR_CLASSES,
        "lambda_u": lambda_u,
        "warmup_epochs": 30 if hundred_classes else 10,
        "averaged_losses": 5 if rate >= 0.9 else 1,
        **({"warmup_epochs": 5, "rampup_epochs": 8} if dataset == "digits" else {}),
    }


def _adacorr_start(dataset: str, memorised_early: bool, heavy: bool, epochs: int) -> int:
    if dataset in GRAY_DATASETS:
        return 5 if memorised_early else 10
    if dataset == "cifar100":
        return 30 if heavy else 25
    return epochs // (5 if memorised_early else 4)


def options_for_weights(method: str, pretrained: str | None, *, folds: bool = False) -> dict[str, Any]:
    """Return γ's initialisation: 0 beside pretrained weights, since a random γ would drown what they encode.

    Heads that are trained for a few epochs also start with γ = 0: their σ is then the whole of the first weights.
    """
    from tnlpad.methods import METHODS

    if not _decomposes(method):
        return {}
    return {"init": METHODS[method].config().init if pretrained is None and not folds else "zero"}


def _decomposes(method: str) -> bool:
    """Whether this is TNLPAD, alone or in a combination."""
    from tnlpad.methods import METHODS
    from tnlpad.methods.tnlpad import TnlpadConfig

    return issubclass(METHODS[method].config, TnlpadConfig)


def assumed_rate(method: str, dataset: str, spec: "NoiseSpec") -> float | None:
    """Return the noise rate that a method may assume; None if it is unknown."""
    if spec.human is not None:
        # The rate is part of a run's id. Beyond the paper's runs, only methods that use the rate record it.
        recorded = method in NEEDS_NOISE_RATE or spec.human in PAPER_LABEL_SETS
        return wrong_label_share(dataset, spec.human) if recorded else None
    if spec.noise_rate is None:
        return WRONG_AS_PUBLISHED.get(dataset)
    # The code of JoCoR's authors halves it for all asymmetric noise. That is right if at least half of the classes keep
    # their labels, but in CIFAR-100 every class is flipped.
    half_flipped = spec.kind == "asymmetric" and not dataset.startswith("cifar100")
    return spec.noise_rate / 2 if method == "jocor" and half_flipped else spec.noise_rate
