import pytest

from tests.report.drawings.conftest import lines, plain
from tnlpad.report.drawings.norms import DRAWING, LINES

# β2 = t^(−0.6) is 1, 0.66, 0.52, 0.44.
NORMS = {
    "gradient": (2.0, 2.0, 2.0, 2.0),
    "sigma": (8.0, 9.0, 10.0, 11.0),
    "gamma": (4.0, 1.0, 0.5, 0.1),
    "drift": (0.5, 0.4, 0.3, 0.2),
    "averaged_gradient": (0.5, 0.6, 0.6, 0.6),
}


def run(make_record, norms=NORMS, **words):
    return make_record(test=(0.1,) * 4, validation=(0.1,) * 4, norms=norms, **words)


def test_all_norms_and_beta2_on_a_logarithmic_axis(make_record):
    (axes,) = DRAWING.draw([run(make_record)], {}).axes
    drawn = lines(axes)
    assert axes.get_yscale() == "log"
    for name, values in NORMS.items():
        assert drawn[LINES[name].label][:, 1] == pytest.approx(values)
    assert drawn["β2"][:, 1] == pytest.approx([t**-0.6 for t in (1, 2, 3, 4)])
    assert {LINES[name].label for name in (*NORMS, "beta2")} < {text.get_text() for text in axes.texts}


def test_the_release_is_where_beta2_falls_below_the_averaged_gradient(make_record):
    records = [run(make_record)]
    (axes,) = DRAWING.draw(records, {}).axes
    assert "release: epoch 3" in [text.get_text() for text in axes.texts]
    assert [3, 3] in [list(line.get_xdata()) for line in axes.get_lines()]
    assert "β2 first falls below ‖ḡ‖ in epoch 3" in plain(DRAWING.findings(records, {}))


def test_the_smallest_gamma_is_looked_for_before_the_learning_rate_drops(make_record):
    for milestones, least in (((4,), 3), ((40, 80), 4), ((), 4)):
        found = plain(DRAWING.findings([run(make_record, milestones=milestones)], {}))
        assert f"‖γ‖ is smallest in epoch {least} " in found


def test_no_release_without_the_averaged_gradient(make_record):
    older = {name: values for name, values in NORMS.items() if name != "averaged_gradient"}
    records = [run(make_record, older)]
    (axes,) = DRAWING.draw(records, {}).axes
    assert not [text for text in axes.texts if "release" in text.get_text()]
    assert "was not recorded" in plain(DRAWING.findings(records, {}))


def test_a_gradient_that_stays_small_never_releases(make_record):
    records = [run(make_record, {**NORMS, "averaged_gradient": (0.1,) * 4})]
    assert "β2 never falls below ‖ḡ‖" in plain(DRAWING.findings(records, {}))
    DRAWING.draw(records, {})


def test_seeds_are_averaged_as_the_axis_shows_them(make_record):
    other = {**NORMS, "gamma": (1.0, 4.0, 2.0, 0.4)}
    (axes,) = DRAWING.draw([run(make_record), run(make_record, other, seed=2)], {}).axes
    assert lines(axes)["‖γ‖"][:, 1] == pytest.approx([2.0, 2.0, 1.0, 0.2])


def test_only_the_method_as_the_paper_has_it(make_record):
    assert DRAWING.draw([run(make_record, settings={"c2": 1.0}), run(make_record, method="standard")], {}) is None
    assert DRAWING.findings([], {}) == ""


def test_lines_differ_in_more_than_colour():
    assert len({str(line.dashes) for line in LINES.values()}) == len(LINES)
