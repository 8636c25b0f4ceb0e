import json

import numpy as np
import pytest
import torch

from tests.experiments.demo.fake_outcomes import fake_outcomes
from tnlpad.experiments.demo import runs
from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.document import record, summary


def test_the_gain_by_hand():
    config = DemoConfig(seeds=(1, 2), epochs=2)
    result = runs._result(config, fake_outcomes(config, (0.3, 0.5, 0.4), (0.7, 0.8, 0.9)), 1.0)
    gain = record(result, "tnlpad demo")["gain"]
    assert gain["test_last_epoch"] == pytest.approx(0.8 - 0.65)
    assert gain["combined_sd"] == pytest.approx(np.std([0.6, 0.7], ddof=1))  # σ's own is 0 here


def test_summary_agrees_with_numpy():
    values = [0.2, 0.5, 0.9]
    result = summary(values)
    assert (result["mean"], result["sd"]) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert result["n"] == 3
    assert summary([0.5])["sd"] is None


def test_the_record_is_plain_json_and_complete(tiny):
    document = record(tiny, "tnlpad demo")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document["methods"]) == ["plain", "w", "sigma"]
    for method in document["methods"].values():
        assert len(method["curves"]) == 2
        for curves in method["curves"]:
            assert {name: len(values) for name, values in curves.items()} == dict.fromkeys(
                ("test", "validation", "memorised"), 2
            )
            assert all(0 <= share <= 1 for values in curves.values() for share in values)
    assert document["configuration"]["seeds"] == [1, 2]
    assert document["versions"]["torch"] == torch.__version__
    assert [candidate["c2"] for candidate in document["selection"]["candidates"]] == [0.5, 1.0]
