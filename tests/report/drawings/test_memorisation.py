import pytest

from tests.report.drawings.conftest import lines, plain, titles
from tnlpad.report.drawings.memorisation import DRAWING, LINES

BOTH = {"sigma": (0.1, 0.2, 0.3), "w": (0.2, 0.4, 0.8)}


def test_shares_in_percent_of_all_three(make_record):
    records = [
        make_record(memorised=BOTH),
        make_record(seed=2, memorised={"sigma": (0.3, 0.4, 0.5), "w": (0.2, 0.4, 0.8)}),
        make_record("standard", memorised={"w": (0.3, 0.6, 0.9)}),
    ]
    figure = DRAWING.draw(records, {})
    drawn = lines(figure.axes[0])
    assert drawn["σ"][:, 1] == pytest.approx([20, 30, 40])
    assert drawn["w = σ + γ"][:, 1] == pytest.approx([20, 40, 80])
    assert drawn["Standard"][:, 1] == pytest.approx([30, 60, 90])
    assert titles(figure) == ["CIFAR-10, symmetric 40 %"]
    assert {text.get_text() for text in figure.axes[0].texts} == {"σ", "w = σ + γ", "Standard"}
    assert "Standard 90 %, w = σ + γ 80 %, σ 40 %. 1 to 2 seeds." in plain(DRAWING.findings(records, {}))


def test_only_the_method_as_the_paper_has_it(make_record):
    records = [make_record(memorised=BOTH), make_record(settings={"c2": 2.0}, curves=False), make_record("cdr")]
    figure = DRAWING.draw(records, {})
    assert lines(figure.axes[0])["σ"][:, 1] == pytest.approx([10, 20, 30])


def test_panels_with_something_to_compare_come_alone(make_record):
    records = [
        make_record(noise="symmetric:0.4", memorised=BOTH),
        make_record(noise="pairflip:0.4", memorised=BOTH),
        make_record("standard", noise="pairflip:0.4", memorised={"w": (0.3, 0.6, 0.9)}),
    ]
    assert titles(DRAWING.draw(records, {})) == ["CIFAR-10, pairflip 40 %"]


def test_several_panels_share_a_legend(make_record):
    records = [make_record(noise=f"{kind}:0.4", memorised=BOTH) for kind in ("instance", "symmetric", "pairflip")]
    figure = DRAWING.draw(records, {})
    assert [title.partition(",")[2] for title in titles(figure)] == [
        " symmetric 40 %",
        " pairflip 40 %",
        " instance 40 %",
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [line.label for line in LINES.values()]


@pytest.mark.parametrize(("most", "top"), [(0.08, 10), (0.1, 20), (0.46, 100), (0.99, 100)])
def test_panels_share_an_axis_that_is_as_long_as_it_must_be(make_record, most, top):
    records = [
        make_record(noise="symmetric:0.4", memorised={"sigma": (0.01, 0.02, most)}),
        make_record(noise="pairflip:0.4", memorised={"sigma": (0.01, 0.02, 0.01)}),
    ]
    assert [axes.get_ylim() for axes in DRAWING.draw(records, {}).axes] == [(0, top)] * 2


def test_no_figure_where_wrong_labels_are_unknown(make_record):
    assert DRAWING.draw([make_record()], {}) is None
    assert DRAWING.draw([], {}) is None
    assert DRAWING.findings([make_record()], {}) == ""
