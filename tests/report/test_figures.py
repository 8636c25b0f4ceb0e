import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import matplotlib as mpl
import pytest

from tnlpad.report.figures import Series, _spread, curves

SVG = "{http://www.w3.org/2000/svg}"


def series(label, values, colour="--plain", dashes="-"):
    return Series(label=label, colour=colour, dashes=dashes, values=values)


def figure(*each, name="one"):
    return curves(name, "A <title>", "In words & numbers.", "accuracy, %", each)


def parsed(svg):
    # Inside a page the names need no declaration; a parser of XML wants one.
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="x" ', 1))


def test_screen_readers_are_told_what_it_shows():
    root = parsed(figure(series("σ", [[1, 2, 3], [3, 4, 5]])))
    assert root.get("role") == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert (title.text, description.text) == ("A <title>", "In words & numbers.")


def test_it_scales_and_loads_nothing():
    svg = figure(series("σ", [[1, 2, 3]]))
    root = parsed(svg)
    assert "width" not in root.attrib
    assert root.get("viewBox")
    assert "http" not in svg
    assert "<style" not in svg
    assert "<metadata" not in svg


def test_colours_are_the_pages():
    svg = figure(series("a", [[1, 2], [2, 3]]), series("b", [[5, 6], [6, 7]], colour="--sigma"))
    for variable in ("--ink", "--grid", "--plain", "--sigma"):
        assert f"var({variable})" in svg
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == set()


def test_labels_are_text_at_the_end_of_the_lines():
    texts = [element.text for element in parsed(figure(series("plain SGD", [[1, 2]]))).iter(f"{SVG}text")]
    assert "plain SGD" in texts
    assert "epoch" in texts
    assert "accuracy, %" in texts


def test_two_figures_of_a_page_share_no_id():
    one, two = (figure(series("a", [[1, 2]]), name=name) for name in ("one", "two"))
    ids = [set(re.findall(r'id="((?:one|two|p|m|C)[^"]*)"', svg)) for svg in (one, two)]
    clips = [set(re.findall(r"url\(#([^)]+)\)", svg)) for svg in (one, two)]
    assert not clips[0] & clips[1]
    assert not {i for i in ids[0] if "-" in i} & {i for i in ids[1] if "-" in i}


def test_the_same_numbers_give_the_same_bytes_and_no_global_setting_changes():
    before = dict(mpl.rcParams)
    assert figure(series("a", [[1, 2]])) == figure(series("a", [[1, 2]]))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("heights", [[50, 51, 52], [99, 99.5, 100], [1, 60, 3], [0, 0, 0], [30]])
def test_labels_do_not_cover_each_other(heights):
    placed = _spread({str(k): (h, "") for k, h in enumerate(heights)})
    ordered = sorted(placed)
    assert all(b - a >= 8 - 1e-9 for a, b in pairwise(ordered))
    assert max(placed) <= 100
    assert [placed[k] for k in sorted(range(len(heights)), key=heights.__getitem__)] == ordered
