from types import SimpleNamespace

import pytest

from tnlpad.paper.cells import Published
from tnlpad.report.groups import Spread
from tnlpad.report.results import Comparison
from tnlpad.report.tables import (
    agreement_mark,
    agreement_text,
    demo_rows,
    demo_verdict,
    epochs_text,
    mean_sd,
    n_text,
    percent,
    signed,
    spread_text,
)


def test_percent_and_mean_sd():
    assert percent(0.82656) == "82.7"
    assert percent(0.4, 0) == "40"
    assert mean_sd({"mean": 0.5, "sd": 0.0123}) == "50.0 ± 1.2"
    assert mean_sd({"mean": 0.5, "sd": None}) == "50.0"


def test_numbers_as_the_paper_writes_them():
    assert spread_text(Spread(mean=98.954, sd=0.126, n=5)) == "98.95 ± 0.13"
    assert spread_text(Spread(mean=98.954, sd=None, n=1)) == "98.95"
    assert spread_text(Published(mean=73.63, std=None, n=1)) == "73.63"
    assert spread_text(Published(mean=9.5, std=0.0, n=5)) == "9.50 ± 0.00"


@pytest.mark.parametrize(
    ("points", "text"), [(0.314, "+0.31"), (-0.316, "−0.32"), (0.001, "0.00"), (-0.001, "0.00"), (12, "+12.00")]
)
def test_differences_have_a_sign(points, text):
    assert signed(points) == text


@pytest.mark.parametrize(
    ("difference", "bound", "unknown", "text", "mark"),
    [
        (0.31, 0.42, None, "yes: 0.31 ≤ 0.42", "≈"),
        (-0.31, 0.42, None, "yes: 0.31 ≤ 0.42", "≈"),
        (0.71, 0.42, None, "no: 0.71 > 0.42", "▲"),
        (-0.71, 0.42, None, "no: 0.71 > 0.42", "▼"),
        (0.71, None, "we have one seed", "cannot be said: we have one seed", "?"),
    ],
)
def test_agreement(difference, bound, unknown, text, mark):
    comparison = Comparison(difference=difference, bound=bound, unknown=unknown)
    assert agreement_text(comparison) == text
    assert agreement_mark(comparison) == mark


def test_epochs():
    assert epochs_text((3, 3)) == "3"
    assert epochs_text((3, 17)) == "3–17"


@pytest.mark.parametrize(("n", "text"), [(1, "1 of 5"), (4, "4 of 5"), (5, "5"), (7, "7")])
def test_how_many_seeds_are_missing(n, text):
    entry = SimpleNamespace(cell=SimpleNamespace(trials=5))
    assert n_text(entry, SimpleNamespace(chosen=Spread(mean=50.0, sd=None, n=n))) == text


def test_the_epochs_of_several_seeds_are_a_range(demo_record):
    demo_record["methods"]["plain"]["chosen_epochs"] = [3, 5, 2]
    assert demo_rows(demo_record)[0].chosen_epochs == "2–5"


def test_rows(demo_record):
    rows = demo_rows(demo_record)
    assert [row.method for row in rows] == ["Plain SGD", "TNLPAD, w = σ + γ", "TNLPAD, σ"]
    sigma = rows[2]
    assert (sigma.last, sigma.chosen, sigma.memorised, sigma.n) == ("80.0 ± 2.0", "90.0 ± 1.0", "30.0 ± 5.0", 2)
    assert sigma.chosen_epochs == "2–3"
    assert rows[0].chosen_epochs == "2"


@pytest.mark.parametrize(
    ("gain", "spread", "sentence"),
    [
        (0.15, 0.05, "15.0 points more of the test images right than plain SGD, 3.0 times the combined"),
        (-0.02, 0.04, "2.0 points less of the test images right than plain SGD, 0.5 times"),
        (0.1, None, "one seed"),
        (0.1, 0.0, "than plain SGD."),
    ],
)
def test_the_verdict_says_what_happened(demo_record, gain, spread, sentence):
    demo_record["gain"] = {"test_last_epoch": gain, "combined_sd": spread}
    assert sentence in demo_verdict(demo_record)
