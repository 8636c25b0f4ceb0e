"""Names and numbers as text: titles of methods and datasets, accuracies, differences, ranges."""

from typing import TYPE_CHECKING

from tnlpad.paper.cells import NETWORKS, Published

if TYPE_CHECKING:
    from tnlpad.report.groups import Spread

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
MINUS = "−"


def method_title(name: str) -> str:
    """Return the title of a method or of a row of a paper's table."""
    return METHODS.get(name, name)


def dataset_title(name: str) -> str:
    """Return a dataset's name as commonly written."""
    return DATASETS.get(name, name)


def network_title(name: str) -> str:
    """Return a network's name as commonly written."""
    return NETWORK_TITLES.get(name, name)


def noise_title(noise: str) -> str:
    """Return `symmetric:0.4`, or `symmetric-0.4`, as "symmetric 40 %" with a no-break space; a label file as it is."""
    if noise.endswith(".npz"):
        return noise
    kind, _, argument = noise.partition(":" if ":" in noise else "-")
    try:
        return f"{kind} {100 * float(argument):g}\u00a0%"
    except ValueError:
        return f"{kind} {argument}".strip() if kind != "none" else "as it comes"


def column_title(column: str) -> str:
    """Return the heading of a paper's column: noise, network and noise, or dataset and label set."""
    *network, noise = column.split("/")
    if network:
        return f"{network_title(network[0])}, {noise_title(noise)}"
    dataset, _, labels = noise.partition("-")
    if dataset in NETWORKS:
        return f"{dataset_title(dataset)} {labels}".strip()
    return noise_title(noise)


def column_heads(column: str) -> tuple[str, str]:
    """Return the heading of a paper's column in two lines, of which neighbours share the upper one."""
    upper, _, lower = column_title(column).rpartition(" ")
    return upper, lower


def group_title(dataset: str, column: str) -> str:
    """Return the title of a column with its dataset, such as "CIFAR-10, symmetric 40 %"."""
    title = column_title(column)
    return title if title.startswith(dataset_title(dataset)) else f"{dataset_title(dataset)}, {title}"


def counted(number: int, noun: str) -> str:
    """Return "1 run", "1,440 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 1) -> str:
    """Return 0.8266 as "82.7 %" with a no-break space."""
    return f"{100 * share:.{digits}f}\u00a0%"


def spread_text(spread: "Spread | Published", digits: int = 2) -> str:
    """Return "98.95 ± 0.12", or the mean alone where there is no standard deviation."""
    sd = spread.std if isinstance(spread, Published) else spread.sd
    mean = f"{spread.mean:.{digits}f}"
    return mean if sd is None else f"{mean} ± {sd:.{digits}f}"


def signed(points: float) -> str:
    """Return a difference with its sign, and 0.00 without one."""
    text = f"{points:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", MINUS)


def range_text(limits: tuple[int, int]) -> str:
    """Return one number, or the first and the last: "12–37"."""
    low, high = limits
    return str(low) if low == high else f"{low}–{high}"


def value_text(value: object) -> str:
    """Return the value of a setting as the command line writes it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()
