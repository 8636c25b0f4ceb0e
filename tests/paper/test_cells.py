import json
from collections import Counter

import pytest

from tnlpad.grid.reproduce import experiments, plan
from tnlpad.methods import METHODS
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.noise.spec import parse_noise
from tnlpad.paper import cells as paper
from tnlpad.paper.cells import FIGURES, SMOKE, TABLES, VARIANTS, cells, curves, identity, identity_of_run, smoke_curves
from tnlpad.runs.config import configure, departures
from tnlpad.runs.recipes import C2 as RECIPE_C2
from tnlpad.runs.recipes import DATASET_DEFAULTS

SIZES = {
    "simulated": 288,
    "real_world": 54,
    "semi_supervised": 16,
    "high_noise": 54,
    "networks": 108,
    "ablation": 16,
}
PUBLISHED = [cell for table in TABLES for cell in cells(table)]
EVERYTHING = [*experiments("all"), *experiments(SMOKE)]


def cell_named(name):
    (cell,) = [cell for cell in PUBLISHED if cell.name == name]
    return cell


def test_every_published_number_has_its_cell():
    assert {table: len(cells(table)) for table in TABLES} == SIZES
    assert len({cell.name for cell in PUBLISHED}) == len(PUBLISHED) == 536
    assert all(cell.published is not None and 0 < cell.published.mean < 100 for cell in PUBLISHED)


@pytest.mark.parametrize(
    ("name", "mean", "std", "n"),
    [
        ("simulated/mnist/symmetric-0.2/standard", 98.95, 0.12, 5),
        ("simulated/cifar100/instance-0.4/tnlpad", 63.03, 0.99, 5),
        ("high_noise/cifar10/symmetric-0.7/cdr", 70.10, 1.04, 5),
        ("networks/cifar10/vgg19/symmetric-0.4/tnlpad", 86.21, 0.27, 5),
        ("real_world/food101/tnlpad", 75.97, None, 1),
        ("real_world/cifar10n-worse/tnlpad", 83.84, 0.35, None),
        ("semi_supervised/cifar10/asymmetric-0.4/dividemix+tnlpad", 92.54, 0.19, None),
        ("ablation/cifar100/symmetric-0.4/decomposition+gamma", 63.0, 0.49, None),
    ],
)
def test_published_numbers(name, mean, std, n):
    published = cell_named(name).published
    assert (published.mean, published.std, published.n) == (mean, std, n)


def test_every_published_number_maps_to_a_configuration():
    mapped = Counter()
    for cell in PUBLISHED:
        (planned,) = plan([cell], seeds=[1])
        assert planned.serves == (cell.name,)
        assert identity(cell) == identity_of_run(planned.config.to_json(), departures(planned.config))
        mapped[cell.table] += 1
    assert mapped == SIZES


@pytest.mark.parametrize("protocol", ["paper", "authors"])
def test_a_run_belongs_to_one_cell_of_its_table_at_most(protocol):
    for table in (*TABLES, SMOKE):
        every = {identity(cell): cell for cell in cells(table) if cell.method in METHODS}
        assert len(every) == len([cell for cell in cells(table) if cell.method in METHODS])
        for planned in plan(every.values(), protocol=protocol, seeds=[3]):
            found = every[identity_of_run(planned.config.to_json(), departures(planned.config))]
            assert planned.serves == (found.name,)


def test_variants_belong_to_the_cell_and_other_settings_do_not():
    cell = cell_named("simulated/cifar10/symmetric-0.4/tnlpad")

    def belongs(network=None, method="tnlpad", noise="symmetric:0.4", dataset="cifar10", **settings):
        config = configure(dataset, noise=noise, method=method, network=network, settings=settings)
        return identity(cell) == identity_of_run(config.to_json(), json.loads(json.dumps(departures(config))))

    assert belongs()
    assert belongs(precision="bfloat16", compiled=True, patience=20)
    assert belongs(c2=0.6)  # its own value
    assert not belongs(c2=0.7)
    assert not belongs(epochs=10, milestones=(4, 8))
    assert not belongs(network="vgg19")
    assert not belongs(method="standard")
    assert not belongs(noise="symmetric:0.2")
    assert not belongs(dataset="cifar10n")


def test_precision_compilation_patience_and_layout_are_the_only_variants():
    """Any other setting makes another experiment: tried with every setting of a run and of the method."""
    cell = cell_named("simulated/cifar10/symmetric-0.4/tnlpad")
    config = configure("cifar10", noise="symmetric:0.4").to_json()
    named = {"options", "dataset", "noise", "method", "network"}
    settings = (config.keys() | config["options"].keys() | {"channels_last"}) - named
    belonging = {name for name in settings if identity(cell) == identity_of_run(config, {name: "another value"})}
    assert belonging == set(VARIANTS) == {"precision", "compiled", "patience", "channels_last"}


def test_what_the_words_of_cells_mean():
    assert cell_named("real_world/cifar10n-random2/cdr").noise == "human:random2"
    assert cell_named("real_world/clothing1m/cdr").noise == "none"
    network = cell_named("networks/cifar100/resnext29/symmetric-0.2/jocor")
    assert (network.dataset, network.network, network.noise) == ("cifar100", "resnext29_32x4d", "symmetric:0.2")
    only_gamma = cell_named("ablation/cifar10/symmetric-0.2/decomposition+gamma")
    assert TnlpadConfig(**only_gamma.settings).reported() == "sigma"
    neither = cell_named("ablation/cifar10/symmetric-0.2/decomposition")
    assert TnlpadConfig(**neither.settings).reported() == "w"
    full = cell_named("ablation/cifar10/symmetric-0.2/decomposition+gamma+sigma")
    assert identity(full) == identity(cell_named("simulated/cifar10/symmetric-0.2/tnlpad"))
    for each in EVERYTHING:
        assert str(parse_noise(each.noise)) == each.noise


def test_facts_that_are_repeated_here_are_those_of_the_recipes():
    for dataset, network in paper.NETWORKS.items():
        assert DATASET_DEFAULTS[dataset]["network"] == network
    assert paper.C2.items() <= RECIPE_C2.items()
    assert {each.dataset for each in EVERYTHING} <= paper.NETWORKS.keys()
    assert tuple(METHODS) == paper.SMOKE_METHODS


def squares(figure, of):
    """A heat map as it is run: how many seeds by dataset, kind and rate of noise, and c2."""
    found = {}
    for curve in of(figure):
        run = configure(curve.dataset, noise=curve.noise, method=curve.method, settings=curve.settings)
        kind, _, rate = curve.noise.partition(":")
        assert (curve.panel, float(curve.label)) == (f"{curve.dataset}/{kind}", run.options["c2"])
        found[curve.dataset, kind, float(rate), run.options["c2"]] = curve.trials
    return found


def test_figures():
    assert {name: len(curves(name)) for name in FIGURES} == {
        "beta": 0,
        "c2_noise": 3 * (5 + 4) * 5,
        "beta2_families": 2 * 2 * 6,
        "tsne": 0,
        "parameter_space": 0,
        "memorisation": 8,
        "norms": 8,
    }
    assert {curve.panel for curve in curves("c2_noise")} == {
        f"{dataset}/{kind}" for dataset in ("mnist", "fashion_mnist", "cifar10") for kind in ("symmetric", "asymmetric")
    }
    for name in FIGURES:
        for curve in (*curves(name), *smoke_curves(name)):
            assert curve.figure == name
        assert len({curve.name for curve in curves(name)}) == len(curves(name))
    grids = {
        "mnist": (1.0, 1.5, 2.0, 2.5, 3.0),
        "fashion_mnist": (0.5, 1.0, 1.5, 2.0, 2.5),
        "cifar10": (0.2, 0.4, 0.6, 0.8, 1.0),
    }
    rates = {"symmetric": (0.1, 0.2, 0.3, 0.4, 0.5), "asymmetric": (0.1, 0.2, 0.3, 0.4)}
    assert squares("c2_noise", curves) == {
        (dataset, kind, rate, c2): 3
        for dataset, grid in grids.items()
        for kind in rates
        for rate in rates[kind]
        for c2 in grid
    }
    assert squares("c2_noise", smoke_curves) == {
        ("digits", "symmetric", rate, c2): 2 for rate in (0.2, 0.4) for c2 in (0.25, 0.5, 1.0)
    }
    (own_c2,) = [curve for curve in curves("c2_noise") if curve.name == "c2_noise/mnist/symmetric-0.4/2.0"]
    assert identity(own_c2) == identity(cell_named("simulated/mnist/symmetric-0.4/tnlpad"))


@pytest.mark.parametrize(("function", "known"), [(cells, "ablation"), (curves, "beta2_families")])
def test_unknown_names(function, known):
    with pytest.raises(ValueError, match=known):
        function("nonesuch")
