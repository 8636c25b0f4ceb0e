"""Every number and curve of the paper by name, and the runs behind it.

Paper: "Tackling Noisy Labels with Network Parameter Additive Decomposition". `published.json` holds its six tables of
results as printed. A cell is one number of a table. A curve is one line, or one square of a heat map, in a panel of a
figure. Both name their runs by the arguments of `tnlpad train`, except for seeds and protocol. `smoke` is a grid that
is not in the paper: small enough to try everything in minutes.

Ours, because the paper does not give them: the variants of Wide ResNet-28, VGG-19 and ResNeXt-29 (`COLUMN_NETWORKS`),
the grid of c2, the noise rates and families of β2 in figures, and the figures of memorisation and norms.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple


class Row(NamedTuple):
    """The runs of a table's row."""

    method: str
    settings: Mapping[str, Any]


TABLES = {
    "simulated": "Test accuracy under simulated noise",
    "real_world": "Test accuracy under real-world noise",
    "semi_supervised": "Test accuracy combined with semi-supervised methods",
    "high_noise": "Test accuracy under heavy noise",
    "networks": "Test accuracy with other networks",
    "ablation": "Test accuracy with parts of the method",
}
SMOKE = "smoke"
SMOKE_TITLE = "Everything once, on digits"
FIGURES = {
    "beta": "The strengths β1 and β2 over the epochs",
    "c2_noise": "Test accuracy by c2 and noise rate",
    "beta2_families": "Test accuracy under families of β2",
    "tsne": "Test features during training",
    "parameter_space": "Paths of w, σ and γ",
    "memorisation": "Wrong labels memorised over the epochs",
    "norms": "Norms of σ, γ and the gradient over the epochs",
}

# The paper's network and c2 for each dataset. Those of digits are ours: c2 by `tnlpad tune` at 40 % symmetric noise.
NETWORKS = {
    "mnist": "lenet",
    "fashion_mnist": "resnet18",
    "cifar10": "resnet18",
    "cifar100": "resnet50",
    "cifar10n": "resnet18",
    "food101": "imagenet_resnet50",
    "clothing1m": "imagenet_resnet50",
    "digits": "small_cnn",
}
C2 = {
    "mnist": 2.0,
    "fashion_mnist": 1.5,
    "cifar10": 0.6,
    "cifar100": 0.2,
    "cifar10n": 0.8,
    "food101": 0.8,
    "clothing1m": 0.8,
    "digits": 0.5,
}
# The table `networks`. The paper names no widths: the first and the last are the most common variants.
COLUMN_NETWORKS = {"wide_resnet28": "wide_resnet28_10", "vgg19": "vgg19", "resnext29": "resnext29_32x4d"}
ABLATION = {
    "standard": Row("standard", {}),
    "decomposition": Row("tnlpad", {"sigma_constraint": False, "gamma_constraint": False}),
    "decomposition+gamma": Row("tnlpad", {"sigma_constraint": False}),
    "decomposition+gamma+sigma": Row("tnlpad", {}),
}
# Settings in which a run may differ and still belong to its cell: how it was computed, and whether it stopped early.
VARIANTS = ("precision", "compiled", "patience", "channels_last")
TRIALS = 5  # the paper's number of seeds

SMOKE_METHODS = (
    "standard",
    "standard_2x",
    "coteaching",
    "coteaching_plus",
    "jocor",
    "sigua",
    "cnlcu",
    "cnlcu_hard",
    "adacorr",
    "cdr",
    "tnlpad",
    "self",
    "self+tnlpad",
    "dividemix",
    "dividemix+tnlpad",
)
SMOKE_SETTINGS: Mapping[str, Any] = MappingProxyType({"epochs": 40, "milestones": [30]})
SMOKE_DIVIDEMIX: Mapping[str, Any] = MappingProxyType(
    {"epochs": 20, "milestones": [15]}
)  # each takes six times as long
SMOKE_TRIALS = 2

# Tables that compare methods. A method that is in no table of the paper can have a row in them.
OPEN_TABLES = ("simulated", "real_world", "high_noise", "networks", SMOKE)

FAMILIES = ("constant", "linear", "power", "exponential", "step")
C2_GRID = {
    "mnist": (1.0, 1.5, 2.0, 2.5, 3.0),
    "fashion_mnist": (0.5, 1.0, 1.5, 2.0, 2.5),
    "cifar10": (0.2, 0.4, 0.6, 0.8, 1.0),
}
C2_RATES = {"symmetric": (0.1, 0.2, 0.3, 0.4, 0.5), "asymmetric": (0.1, 0.2, 0.3, 0.4)}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper, in percent; its standard deviation and number of trials where the paper gives them."""

    mean: float
    std: float | None
    n: int | None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Runs that differ only in their seed; `network` None is the dataset's default, `settings` are those of `--set`."""

    dataset: str
    noise: str
    method: str
    network: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    trials: int = TRIALS  # seeds 1 to this by default

    @property
    def resolved_network(self) -> str:
        return self.network or NETWORKS[self.dataset]


@dataclass(frozen=True, kw_only=True)
class Cell(Experiment):
    """One number of a table, by the names of its row and column."""

    table: str
    row: str
    column: str
    published: Published | None = None

    @property
    def group(self) -> str:
        """Place in the table, such as `cifar10/symmetric-0.4`, `cifar10/vgg19/symmetric-0.4` or `cifar10n-worse`."""
        return self.column if self.table == "real_world" else f"{self.dataset}/{self.column}"

    @property
    def name(self) -> str:
        return f"{self.table}/{self.group}/{self.row}"


@dataclass(frozen=True, kw_only=True)
class Curve(Experiment):
    """One line, or one square of a heat map, in a panel of a figure."""

    figure: str
    panel: str
    label: str

    @property
    def group(self) -> str:
        return self.panel

    @property
    def name(self) -> str:
        return f"{self.figure}/{self.dataset}/{noise_name(self.noise)}/{self.label}"


@cache
def cells(table: str) -> tuple[Cell, ...]:
    """Return the numbers of a table, row by row as in the paper."""
    if table == SMOKE:
        return _smoke_cells()
    if table not in TABLES:
        raise ValueError(f"table={table!r}: there are {', '.join([*TABLES, SMOKE])}.")
    content = json.loads(files("tnlpad.paper").joinpath("published.json").read_text())
    return tuple(_published_cell(entry) for entry in content["cells"] if entry["table"] == table)


@cache
def method_cells(table: str, method: str) -> tuple[Cell, ...]:
    """Return cells without published numbers for a method that the paper does not have: one for each column.

    Empty for the paper's methods, and for tables that do not compare methods.
    """
    if table not in OPEN_TABLES or method in _table_methods():
        return ()
    every = cells(table)
    if any(cell.method == method for cell in every):
        return ()
    columns = (cell for cell in every if cell.row == "standard")
    return tuple(replace(cell, row=method, method=method, published=None) for cell in columns)


@cache
def _table_methods() -> frozenset[str]:
    return frozenset(cell.method for table in TABLES for cell in cells(table))


@cache
def curves(figure: str) -> tuple[Curve, ...]:
    """Return the curves of a figure; empty if it needs no runs, or only runs that it makes itself."""
    if figure not in FIGURES:
        raise ValueError(f"figure={figure!r}: there are {', '.join(FIGURES)}.")
    if figure == "beta2_families":
        panels = [(dataset, f"symmetric:{rate}") for dataset in ("fashion_mnist", "cifar10") for rate in (0.2, 0.4)]
        return tuple(curve for dataset, noise in panels for curve in _families(dataset, noise, {}, trials=3))
    if figure == "c2_noise":
        return tuple(
            curve
            for dataset, grid in C2_GRID.items()
            for kind, rates in C2_RATES.items()
            for curve in _c2_grid(dataset, kind, rates, grid, {}, trials=3)
        )
    if figure in ("memorisation", "norms"):
        kinds = ("symmetric", "asymmetric", "pairflip", "instance")
        return tuple(curve for kind in kinds for curve in _pair(figure, "cifar10", f"{kind}:0.4", {}, TRIALS))
    return ()


@cache
def smoke_curves(figure: str) -> tuple[Curve, ...]:
    """Return the curves of a figure on digits, if the grid `smoke` has it."""
    if figure == "beta2_families":
        return _families("digits", "symmetric:0.4", SMOKE_SETTINGS, SMOKE_TRIALS)
    if figure == "c2_noise":
        return _c2_grid("digits", "symmetric", (0.2, 0.4), (0.25, 0.5, 1.0), SMOKE_SETTINGS, SMOKE_TRIALS)
    if figure in ("memorisation", "norms"):
        return _pair(figure, "digits", "symmetric:0.4", SMOKE_SETTINGS, SMOKE_TRIALS)
    return ()


def identity(experiment: Experiment) -> str:
    """Return a key that experiments with the same runs share, and `identity_of_run` gives for those runs."""
    words = [experiment.dataset, experiment.noise, experiment.method, experiment.resolved_network]
    return _identity(words, experiment.settings)


def identity_of_run(config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the key of a recorded run; see `identity`."""
    words = [str(config[key]) for key in ("dataset", "noise", "method", "network")]
    return _identity(words, {name: value for name, value in settings.items() if name not in VARIANTS})


def noise_name(noise: str) -> str:
    """Write `symmetric:0.4` as in names of cells: `symmetric-0.4`."""
    return noise.replace(":", "-")


def _identity(words: list[str], settings: Mapping[str, Any]) -> str:
    return json.dumps([*words, dict(settings)], sort_keys=True)


def _published_cell(entry: Mapping[str, Any]) -> Cell:
    method, settings = ABLATION[entry["row"]] if entry["table"] == "ablation" else Row(entry["row"], {})
    *network, noise = entry["column"].split("/")
    return Cell(
        table=entry["table"],
        row=entry["row"],
        column=entry["column"],
        dataset=entry["dataset"],
        noise=_noise(entry["dataset"], noise),
        method=method,
        network=COLUMN_NETWORKS[network[0]] if network else None,
        settings=settings,
        trials=entry["n"] or TRIALS,
        published=Published(mean=entry["mean"], std=entry["std"], n=entry["n"]),
    )


def _noise(dataset: str, column: str) -> str:
    """Return the noise for `tnlpad train`; Food-101 and Clothing1M are noisy as published."""
    if dataset == column:
        return "none"
    kind, _, argument = column.partition("-")
    return f"human:{argument}" if kind == dataset else f"{kind}:{argument}"


def _smoke_cells() -> tuple[Cell, ...]:
    rows = {
        name: Row(name, SMOKE_DIVIDEMIX if name.startswith("dividemix") else {}) for name in SMOKE_METHODS
    } | ABLATION
    rows.pop("decomposition+gamma+sigma")  # the same runs as tnlpad
    return tuple(
        Cell(
            table=SMOKE,
            row=row,
            column="symmetric-0.4",
            dataset="digits",
            noise="symmetric:0.4",
            method=method,
            settings={**SMOKE_SETTINGS, **settings},
            trials=SMOKE_TRIALS,
        )
        for row, (method, settings) in rows.items()
    )


def _families(dataset: str, noise: str, settings: Mapping[str, Any], trials: int) -> tuple[Curve, ...]:
    rows = {"standard": Row("standard", {})}
    rows |= {name: Row("tnlpad", {"gamma_family": name} if name != "power" else {}) for name in FAMILIES}
    return _panel("beta2_families", dataset, noise, rows, settings, trials)


def _pair(figure: str, dataset: str, noise: str, settings: Mapping[str, Any], trials: int) -> tuple[Curve, ...]:
    rows = {method: Row(method, {}) for method in ("standard", "tnlpad")}
    return _panel(figure, dataset, noise, rows, settings, trials)


def _panel(
    figure: str, dataset: str, noise: str, rows: Mapping[str, Row], settings: Mapping[str, Any], trials: int
) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            figure=figure,
            panel=f"{dataset}/{noise_name(noise)}",
            label=label,
            dataset=dataset,
            noise=noise,
            method=row.method,
            settings={**settings, **row.settings},
            trials=trials,
        )
        for label, row in rows.items()
    )


def _c2_grid(
    dataset: str,
    kind: str,
    rates: tuple[float, ...],
    grid: tuple[float, ...],
    settings: Mapping[str, Any],
    trials: int,
) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            figure="c2_noise",
            panel=f"{dataset}/{kind}",
            label=str(c2),
            dataset=dataset,
            noise=f"{kind}:{rate}",
            method="tnlpad",
            settings={**settings, **({"c2": c2} if c2 != C2[dataset] else {})},
            trials=trials,
        )
        for rate in rates
        for c2 in grid
    )
