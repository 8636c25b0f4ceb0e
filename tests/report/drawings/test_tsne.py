import io

import pytest

from tests.report.drawings.conftest import plain
from tnlpad.report.drawings.tsne import CLASS_COLOURS, DRAWING

NAMES = ["airplane", "bird", "cat"]


def panel(noise, view, epoch, silhouette=0.25):
    return {
        "noise": noise,
        "method": "standard" if view == "w" else "tnlpad",
        "view": view,
        "epoch": epoch,
        "test_accuracy": 0.9,
        "silhouette": silhouette,
        "neighbours_accuracy": 0.875,
        "positions": [[0, 0], [1, 0], [0, 4], [1, 4], [9, 9], [9, 8]],
        "run_id": "one",
    }


def extras(views=("w", "sigma"), epochs=(5, 25), noises=("pairflip:0.4", "instance:0.4"), **own):
    return {
        "tsne": {
            "dataset": "cifar10",
            "class_names": NAMES,
            "epochs": list(epochs),
            "seed": 1,
            "test_images": 10000,
            "labels": [0, 0, 1, 1, 2, 2],
            "panels": [panel(n, v, e, **own) for n in noises for v in views for e in epochs],
        }
    }


def test_a_row_for_each_view_and_a_column_for_each_epoch():
    figure = DRAWING.draw([], extras(("w", "sigma", "sigma_reestimated")))
    assert len(figure.axes) == 2 * 3 * 2
    assert [axes.get_title(loc="center") for axes in figure.axes[:2]] == ["epoch 5", "epoch 25"]
    rows = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert rows == ["Standard", "σ", "σ,\nown statistics"] * 2
    headings = [plain(part._suptitle.get_text()) for part in figure.subfigs]
    assert headings == ["CIFAR-10, pairflip 40 %", "CIFAR-10, instance 40 %"]


def test_numbers_below_and_classes_named_on_their_points():
    axes = DRAWING.draw([], extras()).axes[0]
    assert plain(axes.get_xlabel()) == "silhouette 0.25 10-NN 87.5 %"
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert places == {"0": (0.5, 0), "1": (0.5, 4), "2": (9, 8.5)}


def test_a_negative_silhouette_has_a_minus():
    axes = DRAWING.draw([], extras(silhouette=-0.05)).axes[0]
    assert axes.get_xlabel().startswith("silhouette −0.05\n")


def test_the_legend_names_every_class():
    (legend,) = DRAWING.draw([], extras()).legends
    assert {text.get_text() for text in legend.get_texts()} == {"0 airplane", "1 bird", "2 cat"}


def test_points_are_rasterised():
    figure = DRAWING.draw([], extras())
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    assert stream.getvalue().count("data:image/png;base64") == 8


def test_findings_are_the_numbers():
    found = plain(DRAWING.findings([], extras()))
    assert found.startswith("CIFAR-10, 6 of 10,000 test images shown, seed 1.")
    assert "pairflip 40 %: Standard: 0.25 and 87.5 % at epoch 5, 0.25 and 87.5 % at epoch 25; σ: 0.25" in found


@pytest.mark.parametrize("nothing", [{}, extras(noises=())])
def test_nothing_computed_nothing_drawn(nothing):
    assert DRAWING.draw([], nothing) is None
    assert DRAWING.findings([], nothing) == ""


def test_ten_classes_have_ten_colours():
    assert len(set(CLASS_COLOURS)) == 10
