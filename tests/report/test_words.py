import pytest

from tnlpad.data.catalogue import CATALOGUE
from tnlpad.methods import METHODS
from tnlpad.networks import NETWORKS
from tnlpad.paper.cells import cells
from tnlpad.report import words
from tnlpad.report.looks import LOOKS, look, stylesheet, variable
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
def test_where_a_cell_stands(dataset, column, title):
    assert words.group_title(dataset, column) == title


@pytest.mark.parametrize(
    ("noise", "title"),
    [("symmetric:0.35", "symmetric 35\u00a0%"), ("human:worse", "human worse"), ("none", "as it comes")],
)
def test_noise(noise, title):
    assert words.noise_title(noise) == title


def test_unknown_names_stay_what_they_are():
    assert words.method_title("mine") == words.dataset_title("mine") == words.network_title("mine") == "mine"


def test_every_method_of_a_figure_looks_different():
    assert set(METHODS) <= set(LOOKS)
    assert len({each.light for each in LOOKS.values()}) == len(LOOKS)
    assert len({each.dark for each in LOOKS.values()}) == len(LOOKS)
    assert max(LOOKS, key=lambda name: LOOKS[name].width) == "tnlpad"
    assert look("decomposition+gamma+sigma") == look("tnlpad")


def test_the_stylesheet_has_every_colour():
    for name in (*LOOKS, "of somebody else"):
        assert stylesheet().count(f"{variable(name)}: #") == 3


def contrast(one, two):
    """As the Web Content Accessibility Guidelines define it."""

    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(one), luminance(two)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("name", LOOKS)
def test_labels_can_be_read_on_either_background(name):
    assert contrast(look(name).light, "#ffffff") >= 4.5
    assert contrast(look(name).dark, "#14171b") >= 4.5
