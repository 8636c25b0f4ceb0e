import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from tnlpad.report.figures import Series, curves, fitting, push_apart

SVG = "{http://www.w3.org/2000/svg}"


def series(label, values, colour="--plain", dashes="4 2", width=2.2):
    return Series(label=label, colour=colour, dashes=dashes, width=width, values=values)


def figure(*each, name="one", **options):
    return curves(name, "A <title>", "accuracy, % & more", each, **options)


def parsed(svg):
    # Inside a page the name needs no declaration; a parser of XML wants one.
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def points(path):
    """Return the points of a path of relative steps."""
    steps = [tuple(map(float, re.findall(r"-?\d*\.?\d+", step))) for step in re.findall(r"[Ml][^Mlz]*", path)]
    found = [steps[0]]
    for dx, dy in steps[1:]:
        found.append((round(found[-1][0] + dx, 6), round(found[-1][1] + dy, 6)))
    return found


def test_there_is_a_description_for_screen_readers():
    root = parsed(figure(series("σ", [[10, 80, 60], [20, 90, 70]])))
    assert root.get("role") == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert title.text == "A <title>"
    assert description.text == (
        "Mean over the seeds. σ: 15 % after epoch 1, highest 85 % after epoch 2, 65 % at the end."
    )


def test_it_scales_and_loads_nothing():
    svg = figure(series("σ", [[1, 2, 3]]))
    root = parsed(svg)
    assert "width" not in root.attrib
    assert root.get("viewBox")
    assert "http" not in svg


def test_colours_are_the_pages():
    svg = figure(series("a", [[1, 2], [2, 3]]), series("b", [[5, 6], [6, 7]], colour="--sigma"))
    assert svg.count("var(--plain)") >= 3  # band, line and label
    assert svg.count("var(--sigma)") >= 3
    assert not re.search(r"#[0-9a-f]{3,6}\b", svg.replace("url(#", ""))


def test_labels_and_axes_are_text():
    texts = [element.text for element in parsed(figure(series("plain SGD", [[1] * 60]))).iter(f"{SVG}text")]
    for wanted in ("plain SGD", "epoch", "accuracy, % & more", "0", "100", "1", "60"):
        assert wanted in texts


def test_lines_are_means_and_bands_are_standard_deviations():
    root = parsed(figure(series("a", [[40, 50, 70], [60, 50, 90]]), limits=(0, 100)))
    line = points(next(path for path in root.iter(f"{SVG}path") if path.get("class") == "line").get("d"))
    band = points(next(path for path in root.iter(f"{SVG}path") if path.get("class") == "band").get("d"))
    top, bottom = 12, 290 - 44
    heights = [bottom - share * (bottom - top) for share in (0.5, 0.5, 0.8)]
    assert [y for _, y in line] == pytest.approx(heights, abs=0.11)
    sd = 0.2 / 2**0.5 * (bottom - top)
    assert [y for _, y in band[:3]] == pytest.approx([heights[0] - sd, heights[1], heights[2] - sd], abs=0.11)
    assert [y for _, y in band[3:]] == pytest.approx([heights[2] + sd, heights[1], heights[0] + sd], abs=0.11)


def test_one_seed_has_no_band_and_thin_lines_have_faint_ones():
    assert 'class="band' not in figure(series("a", [[1, 2]]))
    assert 'class="band"' in figure(series("a", [[1, 2], [2, 3]]))
    assert 'class="band faint"' in figure(series("a", [[1, 2], [2, 3]], width=1.5))


def test_a_run_that_stopped_early_cuts_the_mean():
    each = series("a", [[10, 20, 30], [20, 40]])
    assert each.means.tolist() == [15, 30]
    figure(each, series("b", [[1, 2, 3, 4]]))


def test_a_long_label_leaves_room_for_the_curve():
    root = parsed(figure(series("a method with a very long name and settings", [[50, 60]])))
    assert float(root.find(f"{SVG}clipPath/{SVG}rect").get("width")) > 200
    assert "a method with a ver…" in [element.text for element in root.iter(f"{SVG}text")]
    assert "very long name and settings" in root.find(f"{SVG}desc").text


def test_one_epoch_is_a_figure_too():
    assert "epoch" in figure(series("a", [[50]]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[5, *[91] * 8, 97]], (90, 98)),
        ([[0.0] * 20], (0, 0.5)),
        ([[100.0] * 20], (99.5, 100)),
        ([[*[50.0] * 10, 62.0]], (50, 65)),
    ],
)
def test_limits_leave_out_the_first_climb(values, expected):
    assert fitting([series("a", values)]) == expected


@pytest.mark.parametrize(("width", "expected"), [(2.2, (40, 60)), (1.5, (50, 50.5))])
def test_limits_include_the_bands_of_prominent_lines(width, expected):
    apart = 14 / 2**0.5  # a standard deviation of 7 to either side of 50
    assert fitting([series("a", [[50 - apart / 2] * 20, [50 + apart / 2] * 20], width=width)]) == expected


def test_two_figures_of_a_page_share_no_id():
    one, two = (figure(series("a", [[1, 2]]), name=name) for name in ("one", "two"))
    ids = [set(re.findall(r'id="([^"]*)"', svg)) for svg in (one, two)]
    assert len(ids[0]) == 3
    assert not ids[0] & ids[1]
    assert {found for svg in (one, two) for found in re.findall(r"url\(#([^)]+)\)", svg)} <= ids[0] | ids[1]


def test_the_same_numbers_give_the_same_bytes():
    assert figure(series("a", [[1, 2]])) == figure(series("a", [[1, 2]]))


@pytest.mark.parametrize("heights", [[50, 51, 52], [99, 99.5, 100], [1, 60, 3], [0, 0, 0], [30], [40, 45, 60, 61, 90]])
def test_labels_do_not_cover_each_other(heights):
    placed = push_apart(heights, apart=8, low=0, high=100)
    ordered = sorted(placed)
    assert all(b - a >= 8 - 1e-9 for a, b in pairwise(ordered))
    assert ordered[0] >= 0
    assert ordered[-1] <= 100
    assert [placed[k] for k in sorted(range(len(heights)), key=heights.__getitem__)] == ordered


def test_labels_move_as_little_as_possible():
    assert push_apart([20, 50, 80], apart=8, low=0, high=100) == [20, 50, 80]
    assert push_apart([50, 51, 52], apart=8, low=0, high=100) == [43, 51, 59]
