"""Names as readers know them, for the names that records and cells have."""

from tnlpad.paper.cells import NETWORKS

METHODS = {
    "standard": "Standard",
    "standard_2x": "Standard 2×",
    "coteaching": "Co-teaching",
    "coteaching_plus": "Co-teaching+",
    "jocor": "JoCoR",
    "sigua": "SIGUA",
    "cnlcu": "CNLCU",
    "cnlcu_hard": "CNLCU hard",
    "adacorr": "AdaCorr",
    "cdr": "CDR",
    "tnlpad": "TNLPAD",
    "self": "SELF",
    "self+tnlpad": "SELF + TNLPAD",
    "dividemix": "DivideMix",
    "dividemix+tnlpad": "DivideMix + TNLPAD",
    "decomposition": "Decomposition",
    "decomposition+gamma": "+ penalty on γ",
    "decomposition+gamma+sigma": "+ penalty on σ",
}
DATASETS = {
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar10n": "CIFAR-10N",
    "cifar100n": "CIFAR-100N",
    "food101": "Food-101",
    "clothing1m": "Clothing1M",
    "digits": "Digits",
}
NETWORK_TITLES = {
    "lenet": "LeNet-5",
    "resnet18": "ResNet-18",
    "resnet34": "ResNet-34",
    "resnet50": "ResNet-50",
    "wide_resnet28": "Wide ResNet-28",
    "wide_resnet28_10": "Wide ResNet-28-10",
    "vgg19": "VGG-19",
    "resnext29": "ResNeXt-29",
    "resnext29_32x4d": "ResNeXt-29 (32×4d)",
    "imagenet_resnet50": "ResNet-50 (ImageNet)",
    "small_cnn": "small CNN",
}


def counted(number: int, noun: str) -> str:
    """ "1 run", "1,440 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def method_title(name: str) -> str:
    """A method, or a row of a table."""
    return METHODS.get(name, name)


def dataset_title(name: str) -> str:
    """As people write it."""
    return DATASETS.get(name, name)


def network_title(name: str) -> str:
    """As people write it."""
    return NETWORK_TITLES.get(name, name)


def noise_title(noise: str) -> str:
    """`symmetric:0.4`, or `symmetric-0.4` as cells write it, as "symmetric 40 %", the last two never parted."""
    kind, _, argument = noise.replace(":", "-").partition("-")
    try:
        return f"{kind} {100 * float(argument):g}\u00a0%"
    except ValueError:
        return f"{kind} {argument}".strip() if kind != "none" else "as it comes"


def column_title(column: str) -> str:
    """A column of a paper's table: noise, network and noise, or a dataset with its labels."""
    *network, noise = column.split("/")
    if network:
        return f"{network_title(network[0])}, {noise_title(noise)}"
    dataset, _, labels = noise.partition("-")
    if dataset in NETWORKS:
        return f"{dataset_title(dataset)} {labels}".strip()
    return noise_title(noise)


def group_title(dataset: str, column: str) -> str:
    """Where in a table a cell stands, such as "CIFAR-10, symmetric 40 %"."""
    title = column_title(column)
    return title if title.startswith(dataset_title(dataset)) else f"{dataset_title(dataset)}, {title}"
