import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.report.drawings.conftest import plain, titles
from tnlpad.report.drawings.c2_noise import DRAWING
from tnlpad.report.style import BEST

C2 = (0.4, 0.6, 0.8)


def grid(make_record, validation, test=None, seeds=(1,), **words):
    """Records of a table of validation accuracies: rows for c2, columns for noise rates 0.1, 0.2, …"""
    test = validation if test is None else test
    return [
        make_record(
            noise=f"{words.get('kind', 'symmetric')}:{0.1 * (column + 1):.1f}",
            seed=seed,
            settings={"c2": c2} if c2 != 0.6 else {},
            validation=(validation[row][column],),
            test=(test[row][column],),
            curves=False,
        )
        for row, c2 in enumerate(C2)
        for column in range(len(validation[0]))
        for seed in seeds
    ]


RISING = [[0.9, 0.7, 0.5, 0.3], [0.8, 0.8, 0.6, 0.4], [0.7, 0.6, 0.5, 0.5]]
OTHER = [[0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.7, 0.4], [0.7, 0.8, 0.5, 0.6]]


def red_line(axes):
    (line,) = [line for line in axes.get_lines() if line.get_color() == BEST]
    return [int(row) for row in line.get_ydata()]


def frames(axes):
    return [(int(p.get_x()), int(p.get_y())) for p in axes.patches]


def numbers(axes):
    cells = {(int(t.get_position()[1]), int(t.get_position()[0])): float(t.get_text()) for t in axes.texts}
    return np.array([[cells[row, column] for column in range(4)] for row in range(3)])


def test_test_accuracy_in_the_cells_and_both_choices(make_record):
    (axes,) = DRAWING.draw(grid(make_record, RISING, OTHER), {}).axes
    assert numbers(axes) == pytest.approx(100 * np.array(OTHER))
    assert red_line(axes) == [0, 1, 1, 2]  # by validation
    assert frames(axes) == [(0, 0), (1, 2), (2, 1), (3, 2)]  # by test
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10", "20", "30", "40"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.4", "0.6", "0.8"]


def test_spearman_is_between_noise_rate_and_chosen_c2(make_record):
    records = grid(make_record, RISING, OTHER)
    expected = spearmanr([0.1, 0.2, 0.3, 0.4], [0.4, 0.6, 0.6, 0.8]).statistic
    assert f"(ρ = {expected:.2f})" in DRAWING.draw(records, {}).axes[0].get_xlabel()
    found = plain(DRAWING.findings(records, {}))
    assert f"ρ with the noise rate {expected:.2f}" in found
    assert "best c2 0.4 at 10 %, 0.6 at 20 %, 0.6 at 30 %, 0.8 at 40 %" in found
    assert "the same in 3 of 4 columns" in found


def test_no_correlation_where_nothing_varies(make_record):
    flat = [[0.9] * 4, [0.8] * 4, [0.7] * 4]
    records = grid(make_record, flat)
    assert "ρ" not in DRAWING.draw(records, {}).axes[0].get_xlabel()
    assert "ρ" not in plain(DRAWING.findings(records, {}))


def test_means_over_seeds(make_record):
    records = grid(make_record, RISING, seeds=(1,)) + grid(make_record, np.array(RISING) + 0.1, seeds=(2,))
    (axes,) = DRAWING.draw(records, {}).axes
    assert numbers(axes) == pytest.approx(100 * np.array(RISING) + 5)
    assert plain(DRAWING.findings(records, {})).endswith("2 seeds.")


def test_kinds_of_noise_have_panels_of_their_own(make_record):
    records = grid(make_record, RISING) + grid(make_record, RISING, kind="asymmetric")
    figure = DRAWING.draw(records, {})
    assert titles(figure) == ["(a) CIFAR-10, symmetric", "(b) CIFAR-10, asymmetric"]


def test_missing_runs_leave_gaps_and_columns_without_a_choice_no_mark(make_record):
    records = [r for r in grid(make_record, RISING) if r.config["noise"] != "symmetric:0.4" or not r.settings]
    (axes,) = DRAWING.draw(records, {}).axes
    assert len(axes.texts) == 10
    assert red_line(axes) == [0, 1, 1]


def test_a_single_c2_is_no_choice(make_record):
    assert DRAWING.draw([r for r in grid(make_record, RISING) if not r.settings], {}) is None
    assert DRAWING.draw([make_record("standard")], {}) is None
    assert DRAWING.findings([], {}) == ""
