from itertools import pairwise

from tnlpad.report.drawings.beta import C2_VALUES, DRAWING
from tnlpad.report.drawings.strengths import beta1, power


def test_it_shows_the_formulas():
    (axes,) = DRAWING.draw([], {}).axes
    drawn = [line.get_xydata().tolist() for line in axes.get_lines()]
    times = range(1, 101)
    assert drawn == [[[t, power(t, c2)] for t in times] for c2 in (0.2, 0.6, 0.8, 1.5, 2.0)] + [
        [[t, beta1(t)] for t in times]
    ]
    assert axes.get_yscale() == "log"


def test_every_line_is_named_where_it_ends():
    figure = DRAWING.draw([], {})
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [f"β2, c2 = {c2}" for c2 in C2_VALUES] + ["β1"]
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))


def test_lines_of_one_colour_differ_in_dashes():
    assert len({str(dashes) for dashes in C2_VALUES.values()}) == len(C2_VALUES)
