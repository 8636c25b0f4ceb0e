import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

from tnlpad.report import style
from tnlpad.report.style import (
    COLOURS,
    INK,
    PLAIN,
    SIGMA,
    STYLE,
    inline_svg,
    label_ends,
    save_figure,
    stylesheet,
)

SVG = "{http://www.w3.org/2000/svg}"


def figure(labels=("one", "two")):
    with mpl.rc_context(STYLE):
        drawn = style.new_figure(3.0)
        axes = drawn.add_subplot()
        axes.plot([1, 2, 3], [1, 2, 3], color=SIGMA, marker="o")
        axes.plot([1, 2, 3], [3, 2.9, 3.01], color=PLAIN, linestyle="--")
        axes.scatter([1, 2], [1, 2], rasterized=True)
        axes.set(xlabel="epoch & time", xlim=(1, 3))
        label_ends(axes, [(label, 3.0, INK) for label in labels])
    return drawn


def parsed(svg):
    # Inside a page the names need no declaration; a parser of XML wants one.
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="x" ', 1))


def luminance(colour):
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first, second):
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", sorted(COLOURS.keys() - {"paper", "grid"}))
def test_words_in_every_colour_are_legible(name, page):
    # 4.5 is what the Web Content Accessibility Guidelines ask of text.
    assert contrast(COLOURS[name][page], COLOURS["paper"][page]) >= 4.5


def test_colours_are_distinct():
    assert len({light for light, _ in COLOURS.values()}) == len(COLOURS)


def test_words_on_our_own_fills_are_legible():
    for fill in (style.FILL_LOW, style.FILL_HIGH):
        assert contrast(style.ON_FILL, fill) >= 4.5


def test_the_same_figure_gives_the_same_files(tmp_path):
    before = dict(mpl.rcParams)
    (tmp_path / "again").mkdir()
    first, second = (save_figure(figure(), folder / "name.of") for folder in (tmp_path, tmp_path / "again"))
    assert [path.name for path in first] == ["name.of.svg", "name.of.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "name.of.pdf", "name.of.svg"]
    assert dict(mpl.rcParams) == before


def test_svg_has_text_as_text_and_no_date(tmp_path):
    svg = save_figure(figure(), tmp_path / "one")[0].read_text()
    texts = [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]
    assert {"epoch & time", "one", "two"} <= set(texts)
    assert "date" not in svg.lower().replace("update", "")
    assert mpl.__version__ not in svg


def test_pdf_has_its_fonts_and_no_date(tmp_path):
    pdf = save_figure(figure(), tmp_path / "one")[1].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf
    for word in (b"CreationDate", b"Producer", b"Creator", b"Matplotlib"):
        assert word not in pdf


def test_in_a_page_colours_are_variables():
    svg = inline_svg(figure(), "one", "Title", "Words.")
    assert f"var(--sigma, {SIGMA})" in svg
    assert f"var(--ink, {INK})" in svg
    without = re.sub(r"var\(--[a-z]+, #[0-9a-f]{6}\)", "", svg)
    assert not any(light in without for light, _ in COLOURS.values())


def test_in_a_page_it_scales_and_loads_nothing():
    svg = inline_svg(figure(), "one", "Title", "Words.")
    root = parsed(svg)
    assert root.get("viewBox")
    assert "width" not in root.attrib
    assert re.fullmatch(r"max-width: [\d.]+rem", root.get("style"))
    assert all(address.startswith(("#", "data:")) for address in re.findall(r'href="([^"]*)"', svg))
    assert "<style" not in svg
    assert "<metadata" not in svg


def test_there_is_a_description_for_screen_readers():
    root = parsed(inline_svg(figure(), "one", "A <title>", "Words & numbers."))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert (title.text, description.text) == ("A <title>", "Words & numbers.")


def test_ids_are_used_and_occur_once_in_a_page():
    page = [inline_svg(figure(), name, "Title", "Words.") for name in ("one", "two")]
    ids = [re.findall(r'id="([^"]+)"', svg) for svg in page]
    assert len(ids[0]) > 2
    assert len({*ids[0], *ids[1]}) == len(ids[0]) + len(ids[1])
    for svg, own in zip(page, ids, strict=True):
        referred = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
        assert referred <= set(own)


def test_the_stylesheet_has_every_colour_for_every_page():
    css = stylesheet()
    for name, (light, dark) in COLOURS.items():
        assert css.count(f"--{name}: {light};") == 2  # light, print
        assert css.count(f"--{name}: {dark};") == 1
    assert css.count("{") == css.count("}")


def test_labels_at_line_ends_do_not_touch():
    drawn = figure(("one", "two", "three"))
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    assert all(box.x0 >= axes.get_window_extent().x1 for box in boxes)
    assert all(box.x1 <= drawn.bbox.x1 for box in boxes)


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (2, 1), (3, 2), (6, 3)])
def test_panels_form_rows_of_two(count, rows):
    with mpl.rc_context(STYLE):
        drawn, axes = style.panels(count, 2.0, below_inches=0.5)
    drawn.draw_without_rendering()
    assert len(axes) == count
    assert drawn.get_figheight() == 2.0 * rows + 0.5
    widths = [each.get_window_extent().width for each in axes]
    if count % 2 and count > 1:
        assert widths[-1] > 1.8 * widths[0]  # has its row for itself


def test_a_legend_is_no_wider_than_its_figure():
    """With six labels of these lengths, three columns are wider than the figure, two are not."""
    with mpl.rc_context(style.STYLE):
        figures = []
        for label in ("Standard", "DivideMix + TNLPAD"):
            figures.append(style.new_figure(3))
            lines = [style.Line(label=label, colour=style.INK) for _ in range(6)]
            style.legend_below(figures[-1], lines, 3, handle_length=4)
        short, long = (figure.legends for figure in figures)
    assert [len(legends) for legends in (short, long)] == [1, 1]
    assert [legends[0]._ncols for legends in (short, long)] == [3, 2]
    assert long[0].get_window_extent().width <= figures[1].bbox.width


def test_labels_of_curves_that_end_low_stay_above_the_axis():
    with mpl.rc_context(STYLE):
        drawn = style.new_figure(3.0)
        axes = drawn.add_subplot()
        axes.set(xlim=(0, 100), ylim=(0, 1))
        label_ends(axes, [(f"curve {number}", 0.01 * number, INK) for number in range(5)])
    heights = [text.xy[1] for text in axes.texts]
    assert heights == sorted(heights)
    assert heights[0] >= 0
