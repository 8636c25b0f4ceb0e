import pytest

from tnlpad.report.tables import demo_rows, demo_verdict, mean_sd, percent


def test_percent_and_mean_sd():
    assert percent(0.82656) == "82.7"
    assert percent(0.4, 0) == "40"
    assert mean_sd({"mean": 0.5, "sd": 0.0123}) == "50.0 ± 1.2"
    assert mean_sd({"mean": 0.5, "sd": None}) == "50.0"


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
