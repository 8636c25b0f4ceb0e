from dataclasses import replace

import pytest

from tnlpad.experiments.demo.config import DemoConfig


def test_the_learning_rate_drops_once_for_the_last_quarter():
    config = DemoConfig()
    rates = [config.learning_rate_at(epoch) for epoch in range(1, 61)]
    assert rates == pytest.approx([0.01] * 45 + [0.001] * 15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, r"seeds=\(\): give at least one"),
        ({"seeds": (1, 1)}, "none of them twice"),
        ({"c2_candidates": ()}, "c2_candidates"),
        ({"epochs": 0}, "epochs=0: must be at least 1"),
        ({"batch_size": -1}, "batch_size=-1"),
    ],
)
def test_settings_without_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(DemoConfig(), **changes)
