from itertools import combinations

import pytest

from tests.report.test_style import contrast
from tnlpad.methods import METHODS
from tnlpad.report.method_styles import ALL_STYLES, METHOD_STYLES, OTHER_STYLES, curve_styles
from tnlpad.report.style import stylesheet


def test_every_method_has_its_own_colour_and_dashes():
    assert set(METHODS) <= set(METHOD_STYLES)
    for field in ("light", "dark", "variable"):
        assert len({getattr(style, field) for style in ALL_STYLES}) == len(ALL_STYLES)
    assert len({style.dashes for style in METHOD_STYLES.values()}) == len(METHOD_STYLES)
    assert max(METHOD_STYLES, key=lambda name: METHOD_STYLES[name].width) == "tnlpad"
    assert curve_styles(["decomposition+gamma+sigma"]) == curve_styles(["tnlpad"]) == [METHOD_STYLES["tnlpad"]]


def rhythm(dashes):
    """Return the number of strokes, the length of a period, and the share of it that is drawn."""
    parts = [float(part) for part in dashes.split()] or [1.0, 0.0]
    return len(parts) // 2, sum(parts), sum(parts[::2]) / sum(parts)


def test_dashes_can_be_told_apart_in_gray():
    for one, two in combinations(METHOD_STYLES, 2):
        (strokes, period, share), other = (rhythm(METHOD_STYLES[name].dashes) for name in (one, two))
        differs = strokes != other[0] or abs(period - other[1]) / max(period, other[1]) > 0.2
        assert differs or abs(share - other[2]) > 0.2, (one, two)


def test_all_curves_of_a_figure_differ():
    """A study of twelve values of a setting, and a table with methods of the user."""
    study = curve_styles(["standard", *["tnlpad"] * 11])
    table = curve_styles([*METHODS, "mine", "yours"])
    for styles in (study, table[:17]):
        assert len({style.light for style in styles}) == len(styles)
    assert len({style.dashes for style in study}) == len(study)
    assert study[:2] == [METHOD_STYLES["standard"], METHOD_STYLES["tnlpad"]]
    assert [style.name for style in table[-2:]] == ["other-1", "other-2"]
    assert table[: len(METHODS)] == [METHOD_STYLES[name] for name in METHODS]
    assert len(curve_styles(["mine"] * 40)) == 40  # some alike


def test_the_stylesheet_has_the_colour_of_every_method():
    for style in ALL_STYLES:
        assert stylesheet().count(f"{style.variable}: #") == 3


@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_labels_are_legible_on_both_backgrounds(style):
    assert contrast(style.light, "#ffffff") >= 4.5
    assert contrast(style.dark, "#14171b") >= 4.5


def test_there_are_enough_colours_for_a_study():
    assert len(OTHER_STYLES) >= 11
