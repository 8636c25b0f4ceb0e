"""Properties of every drawing."""

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from tests.report.drawings.test_tsne import extras as tsne_extras
from tnlpad.paper.cells import FIGURES, curves, smoke_curves
from tnlpad.report.drawings import DRAWINGS
from tnlpad.report.selection import TITLE
from tnlpad.report.style import inline_svg, save_figure

NORMS = dict.fromkeys(("gradient", "sigma", "gamma", "drift", "averaged_gradient"), (1.0, 0.5, 0.2))
MEMORISED = {"sigma": (0.1, 0.2, 0.3), "w": (0.2, 0.4, 0.8)}


@pytest.fixture
def records(make_record):
    own = ({}, {"gamma_family": "step"}, {"c2": 1.0})
    runs = [make_record(settings=settings, norms=NORMS, memorised=MEMORISED) for settings in own]
    picked = {"precision": {"w": (0.6, 0.8, 0.9)}, "size": {"w": (900, 600, 500)}}
    return [*runs, make_record("standard", memorised={"w": (0.1, 0.2, 0.3)}), make_record("sigua", **picked)]


def test_there_is_a_drawing_for_every_figure():
    assert set(DRAWINGS) == {*FIGURES, "selection"}


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_it_says_what_it_shows_and_what_it_needs(name):
    drawing = DRAWINGS[name]
    assert drawing.title == FIGURES.get(name, TITLE)  # one title, which says what was measured
    assert len(drawing.caption) > 100
    assert drawing.caption.endswith(".")
    assert drawing.needs.endswith(".")
    assert "  " not in drawing.caption


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_without_records_there_is_no_figure_but_that_of_formulas(name):
    assert (DRAWINGS[name].draw([], {}) is None) == (name != "beta")
    assert DRAWINGS[name].findings([], {}) == ""


@pytest.mark.parametrize("name", sorted(DRAWINGS.keys() - {"parameter_space"}))
def test_the_same_records_give_the_same_files_and_no_global_setting_changes(name, records, tmp_path):
    before = dict(mpl.rcParams)
    contents = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        figure = DRAWINGS[name].draw(records, tsne_extras())
        assert figure is not None
        contents.append([path.read_bytes() for path in save_figure(figure, folder / name)])
        contents[-1].append(inline_svg(figure, name, DRAWINGS[name].title, "Words."))
    assert contents[0] == contents[1]
    assert dict(mpl.rcParams) == before


NETWORKS = {"mnist": "lenet", "digits": "small_cnn"}


def of_the_paper(make_record, experiments):
    return [
        make_record(
            each.method,
            dataset=each.dataset,
            noise=each.noise,
            network=NETWORKS.get(each.dataset, "resnet18"),
            settings=each.settings,
            norms=NORMS,
            memorised=MEMORISED,
        )
        for each in experiments
    ]


@pytest.mark.parametrize("grid", [curves, smoke_curves], ids=["paper", "smoke"])
@pytest.mark.parametrize("name", ["beta", "c2_noise", "beta2_families", "tsne", "memorisation", "norms"])
def test_no_word_is_cut_off_at_the_edge(name, grid, make_record):
    extras = tsne_extras(("w", "sigma", "sigma_reestimated"))
    check_that_no_word_is_cut_off(DRAWINGS[name].draw(of_the_paper(make_record, grid(name)), extras))


def test_no_word_is_cut_off_where_names_are_long(make_record):
    settings = {"epochs": 100, "milestones": [85], "warmup_epochs": 10, "lambda_u": 0.5}
    picked = {"precision": {"first": (0.6, 0.8, 0.9)}, "size": {"first": (900, 600, 500)}, "settings": settings}
    options = {name: settings[name] for name in ("warmup_epochs", "lambda_u")}
    records = [make_record(method, options=options, **picked) for method in ("dividemix", "dividemix+tnlpad", "sigua")]
    check_that_no_word_is_cut_off(DRAWINGS["selection"].draw(records, {}))


def check_that_no_word_is_cut_off(figure):
    figure.draw_without_rendering()
    # Ticks beyond the limits have labels that are not drawn; those within are beside their axes.
    ticks = {
        id(text)
        for axes in figure.axes
        for text in (*axes.get_xticklabels(which="both"), *axes.get_yticklabels(which="both"))
    }
    texts = [t for t in figure.findobj(Text) if t.get_text() and t.get_visible() and id(t) not in ticks]
    assert len(texts) > 5
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= -1, text.get_text()
        assert box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert box.y0 >= -1, text.get_text()
        assert box.y1 <= figure.bbox.y1 + 1, text.get_text()
