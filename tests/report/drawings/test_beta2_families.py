import pytest

from tests.report.drawings.conftest import lines, plain, titles
from tnlpad.paper.cells import FAMILIES
from tnlpad.report.drawings.beta2_families import DRAWING, LINES


def families(make_record, names=FAMILIES, **words):
    settings = {name: {"gamma_family": name} if name != "power" else {} for name in names}
    records = [
        make_record(settings={**words.get("settings", {}), **own}, **without(words)) for own in settings.values()
    ]
    return [*records, make_record("standard", settings=words.get("settings"), **without(words))]


def without(words):
    return {name: value for name, value in words.items() if name != "settings"}


def test_a_panel_for_each_dataset_and_noise_in_the_papers_order(make_record):
    records = [
        *families(make_record, noise="symmetric:0.2"),
        *families(make_record, noise="symmetric:0.4"),
        *families(make_record, dataset="fashion_mnist", noise="symmetric:0.4"),
    ]
    figure = DRAWING.draw(records, {})
    assert titles(figure)[:-1] == [
        "(b) Fashion-MNIST, symmetric 40 %",
        "(c) CIFAR-10, symmetric 20 %",
        "(d) CIFAR-10, symmetric 40 %",
    ]
    assert titles(figure)[-1] == "(a) β2 over the epochs"


def test_accuracies_in_percent_with_a_star_where_chosen(make_record):
    records = [
        make_record(settings={"gamma_family": "linear"}, seed=1, test=(0.1, 0.8, 0.6), validation=(0.1, 0.5, 0.4)),
        make_record(settings={"gamma_family": "linear"}, seed=2, test=(0.3, 0.6, 0.8), validation=(0.1, 0.2, 0.3)),
    ]
    panel = DRAWING.draw(records, {}).axes[0]
    assert lines(panel)["linear"].ravel() == pytest.approx([1, 20, 2, 70, 3, 70])
    (star,) = [line for line in panel.get_lines() if line.get_marker() == "*"]
    assert star.get_xydata().ravel() == pytest.approx([2.5, 80])  # epochs 2 and 3, accuracies 0.8 and 0.8


def test_the_families_have_the_length_and_c2_of_the_runs(make_record):
    figure = DRAWING.draw(families(make_record, settings={"epochs": 50}), {})
    drawn = lines(figure.axes[-1])
    assert drawn["power"][:, 0].tolist() == list(range(1, 51))
    assert drawn["power"][9, 1] == pytest.approx(10**-0.6)
    assert drawn["linear"][25, 1] == pytest.approx(0.5)
    assert "standard" not in drawn
    assert "power, c2 = 0.6" in [text.get_text() for text in figure.axes[-1].texts]


def test_any_dataset_and_any_part_of_the_families(make_record):
    records = families(
        make_record, ("constant", "power"), dataset="digits", network="small_cnn", settings={"epochs": 9}
    )
    figure = DRAWING.draw(records, {})
    assert titles(figure)[0] == "(b) Digits, symmetric 40 %, epochs 9"
    assert set(lines(figure.axes[0])) == {"Standard", "constant", "power"}


def test_without_families_there_is_nothing_to_draw(make_record):
    records = [make_record(curves=False), make_record("standard", curves=False)]
    assert DRAWING.draw(records, {}) is None
    assert plain(DRAWING.findings(records, {})) == ""
    assert DRAWING.draw([], {}) is None


def test_findings_put_the_best_first(make_record):
    records = [
        make_record(settings={"gamma_family": "step"}, test=(0.9, 0.1, 0.1), validation=(0.9, 0.1, 0.1)),
        make_record(test=(0.95, 0.1, 0.1), validation=(0.9, 0.1, 0.1)),
        make_record("standard", test=(0.7, 0.99, 0.1), validation=(0.9, 0.1, 0.1)),
    ]
    found = plain(DRAWING.findings(records, {}))
    assert "CIFAR-10, symmetric 40 %: power 95.0 %, step 90.0 %, Standard 70.0 %. 1 seed." in found


def test_every_line_looks_different():
    assert len({line.colour for line in LINES.values()}) == len({str(line.dashes) for line in LINES.values()}) == 6
