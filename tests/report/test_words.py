import pytest

from tnlpad.data.catalogue import CATALOGUE
from tnlpad.methods import METHODS
from tnlpad.networks import NETWORKS
from tnlpad.paper.cells import Published, cells
from tnlpad.report import words
from tnlpad.report.groups import Spread
from tnlpad.report.results import TITLES


def test_everything_in_a_table_has_a_title():
    shown = [cell for name in TITLES for cell in cells(name)]
    assert {cell.row for cell in shown} | set(METHODS) <= set(words.METHODS)
    assert {cell.dataset for cell in shown} | set(CATALOGUE) <= set(words.DATASETS)
    assert {cell.resolved_network for cell in shown} <= set(words.NETWORK_TITLES)
    assert {cell.resolved_network for cell in shown} <= set(NETWORKS)


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1440, "1,440 runs")])
def test_counted(number, text):
    assert words.counted(number, "run") == text


@pytest.mark.parametrize(
    ("dataset", "column", "title"),
    [
        ("cifar10", "symmetric-0.4", "CIFAR-10, symmetric 40\u00a0%"),
        ("cifar10", "vgg19/symmetric-0.2", "CIFAR-10, VGG-19, symmetric 20\u00a0%"),
        ("cifar10n", "cifar10n-worse", "CIFAR-10N worse"),
        ("food101", "food101", "Food-101"),
        ("mine", "none", "mine, as it comes"),
    ],
)
def test_group_title(dataset, column, title):
    assert words.group_title(dataset, column) == title


@pytest.mark.parametrize(
    ("noise", "title"),
    [
        ("symmetric:0.35", "symmetric 35\u00a0%"),
        ("human:worse", "human worse"),
        ("none", "as it comes"),
        ("matrix:my-a:b.csv", "matrix my-a:b.csv"),
        ("my-labels.npz", "my-labels.npz"),
    ],
)
def test_noise(noise, title):
    assert words.noise_title(noise) == title


def test_unknown_names_stay_unchanged():
    assert words.method_title("mine") == words.dataset_title("mine") == words.network_title("mine") == "mine"


def test_numbers_as_the_paper_writes_them():
    assert words.spread_text(Spread(mean=98.954, sd=0.126, n=5)) == "98.95 ± 0.13"
    assert words.spread_text(Spread(mean=98.954, sd=None, n=1)) == "98.95"
    assert words.spread_text(Published(mean=73.63, std=None, n=1)) == "73.63"
    assert words.spread_text(Published(mean=9.5, std=0.0, n=5)) == "9.50 ± 0.00"


@pytest.mark.parametrize(
    ("points", "text"), [(0.314, "+0.31"), (-0.316, "−0.32"), (0.001, "0.00"), (-0.001, "0.00"), (12, "+12.00")]
)
def test_differences_have_a_sign(points, text):
    assert words.signed(points) == text


def test_epochs():
    assert words.range_text((3, 3)) == "3"
    assert words.range_text((3, 17)) == "3–17"


def test_percent():
    assert words.percent(0.82656) == "82.7\u00a0%"
    assert words.percent(0.4, 0) == "40\u00a0%"
