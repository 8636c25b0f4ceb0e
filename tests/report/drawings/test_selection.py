import numpy as np
import pytest

from tests.report.drawings.conftest import lines, plain, titles
from tnlpad.report.drawings.selection import DRAWING
from tnlpad.report.method_styles import METHOD_STYLES
from tnlpad.report.style import inline_svg

ONE = {"precision": {"w": (0.6, 0.8, 0.9)}, "size": {"w": (900, 600, 480)}}


def test_precision_and_recall_in_percent(make_record):
    worse = {"precision": {"w": (0.6, 0.6, 0.7)}, "size": {"w": (900, 600, 480)}}
    records = [make_record("sigua", **ONE), make_record("sigua", seed=2, **worse), make_record("jocor", **ONE)]
    figure = DRAWING.draw([*records, make_record("tnlpad")], {})
    precision, recall = map(lines, figure.axes)
    assert list(precision) == ["JoCoR", "SIGUA"]
    assert precision["SIGUA"].tolist() == [[1, pytest.approx(60)], [2, pytest.approx(70)], [3, pytest.approx(80)]]
    assert recall["JoCoR"][:, 1] == pytest.approx([100, 100 * 480 / 540, 80])
    assert titles(figure)[0] == "CIFAR-10, symmetric 40 %, ResNet-18"
    said = plain(DRAWING.findings(records, {}))
    assert "JoCoR 80.0 % and 88.9 %; SIGUA 70.0 % and 77.8 %. 1 to 2 seeds." in said


def test_missing_recall_is_noted_in_the_panel(make_record):
    records = [make_record("sigua", precision=ONE["precision"])]
    left, right = DRAWING.draw(records, {}).axes
    assert list(lines(left)) == ["SIGUA"]
    assert lines(right) == {}
    assert [text.get_text() for text in right.texts] == ["recall not recorded"]
    assert "SIGUA 80.0 % and no recall recorded." in plain(DRAWING.findings(records, {}))


def test_a_seed_without_recall_leaves_that_of_the_others(make_record):
    older = make_record("sigua", seed=2, precision={"w": (0.6, 0.6, 0.7)})
    left, right = DRAWING.draw([make_record("sigua", **ONE), older], {}).axes
    assert lines(left)["SIGUA"][:, 1] == pytest.approx([60, 70, 80])
    assert lines(right)["SIGUA"][:, 1] == pytest.approx([100, 100 * 480 / 540, 80])


def test_a_line_is_broken_where_nothing_was_kept(make_record):
    nothing = {"precision": {"w": (0.6, None, 0.9)}, "size": {"w": (900, 0, 480)}}
    left, right = DRAWING.draw([make_record("sigua", **nothing)], {}).axes
    assert np.isnan(lines(left)["SIGUA"][1, 1])
    assert lines(right)["SIGUA"][1, 1] == 0
    assert right.get_ylim()[0] == 0


def test_settings_with_most_methods_in_the_order_of_the_table(make_record):
    records = [make_record("sigua", noise=f"symmetric:{rate}", **ONE) for rate in (0.1, 0.2, 0.3, 0.4)]
    records.append(make_record("jocor", noise="symmetric:0.4", **ONE))
    figure = DRAWING.draw(records, {})
    assert titles(figure)[::2] == [
        f"{letter} CIFAR-10, symmetric {rate} %, ResNet-18" for letter, rate in (("(a)", 10), ("(b)", 20), ("(c)", 40))
    ]


def test_the_run_by_the_recipe_is_drawn_first(make_record):
    own = {"settings": {"warmup_epochs": 3}, "options": {"warmup_epochs": 3}}
    figure = DRAWING.draw([make_record("dividemix", **ONE, **own)], {})
    assert list(lines(figure.axes[0])) == ["DivideMix, warmup_epochs 3"]
    figure = DRAWING.draw([make_record("dividemix", **ONE, **own), make_record("dividemix", **ONE)], {})
    assert list(lines(figure.axes[0])) == ["DivideMix"]


def test_ticks_are_whole_epochs_and_colours_are_variables(make_record):
    figure = DRAWING.draw([make_record("dividemix", **ONE)], {})
    assert all(tick == int(tick) for tick in figure.axes[0].get_xticks())
    light = METHOD_STYLES["dividemix"].light
    assert f"var(--m-dividemix, {light})" in inline_svg(figure, "selection", "A title", "Words.")


def test_the_legend_shows_every_dash(make_record):
    """SELF and SELF + TNLPAD differ in their last dash alone."""
    figure = DRAWING.draw([make_record("self", **ONE), make_record("self+tnlpad", **ONE)], {})
    (legend,) = figure.legends
    length = legend.handlelength * legend.get_texts()[0].get_fontsize()
    for line in legend.get_lines():
        _, dashes = line._dash_pattern
        assert sum(dashes[:-1]) <= length
