import json

import pytest

from tests.synthetic_runs import epoch_record
from tnlpad.records.curves import curves_from_json, curves_of, significant


def epochs(method, count=3):
    return [epoch_record(method, k, 0.123456 * k, 0.1 * k) for k in range(1, count + 1)]


def test_curves_of_a_decomposition():
    curves = curves_of(epochs("tnlpad"))
    assert curves.test_accuracy == (0.1235, 0.2469, 0.3704)
    assert curves.validation_accuracy == (0.0741, 0.1481, 0.2222)
    assert curves.train_loss == (1.81, 1.64, 1.48)
    assert curves.judged_test_accuracy == {"sigma": curves.test_accuracy, "w": (0.1111, 0.2222, 0.3333)}
    assert curves.judged_validation_accuracy == {"sigma": curves.validation_accuracy, "w": (0.0667, 0.1333, 0.2)}
    assert curves.memorised == {"sigma": (0.1, 0.2, 0.3), "w": (0.2, 0.4, 0.6)}
    assert list(curves.norms) == ["gradient", "sigma", "gamma", "drift", "averaged_gradient"]
    assert curves.norms["gamma"] == (5.0, 2.5, 1.67)
    assert curves.selection_precision == {}


def test_curves_of_one_network_and_of_two():
    one, two = curves_of(epochs("standard")), curves_of(epochs("coteaching"))
    assert one.judged_test_accuracy == one.judged_validation_accuracy == {}
    assert set(one.memorised) == {"w"}
    assert set(two.judged_test_accuracy) == set(two.judged_validation_accuracy) == {"first", "second"}
    assert set(two.memorised) == {"first", "second"}
    assert two.selection_precision == {"first": (0.9, 0.9, 0.9), "second": (0.9, 0.9, 0.9)}


def test_epochs_without_a_value():
    records = epochs("coteaching")
    records[0]["selection"] = {}
    records[1]["selection"]["first"]["precision"] = None
    for record in records:
        for network in record["judged"].values():
            del network["memorised"]
    curves = curves_of(records)
    assert curves.selection_precision == {"first": (None, None, 0.9), "second": (None, 0.9, 0.9)}
    assert curves.memorised == {}


@pytest.mark.parametrize("method", ["standard", "tnlpad", "coteaching"])
def test_json_round_trip(method):
    curves = curves_of(epochs(method, 20))
    plain = json.loads(json.dumps(curves.to_json()))
    assert curves_from_json(plain) == curves
    assert all(isinstance(value, int) for value in plain["test_accuracy"])
    # The curve of the reported network is stored once.
    assert plain.get("judged_test_accuracy", {}).get("sigma", "test_accuracy") == "test_accuracy"
    assert plain.get("judged_validation_accuracy", {}).get("sigma", "validation_accuracy") == "validation_accuracy"


def test_a_record_of_an_earlier_version():
    plain = curves_of(epochs("tnlpad")).to_json()
    del plain["judged_validation_accuracy"]
    before = json.dumps(plain)
    curves = curves_from_json(json.loads(before))
    assert curves.judged_validation_accuracy == {}
    assert json.dumps(curves.to_json()) == before


@pytest.mark.parametrize("drop", ["train_loss", "test_accuracy"])
def test_a_missing_curve(drop):
    plain = curves_of(epochs("tnlpad")).to_json()
    del plain[drop]
    with pytest.raises(KeyError, match=drop):
        curves_from_json(plain)


def test_curves_of_different_lengths():
    plain = curves_of(epochs("tnlpad")).to_json()
    plain["norms"]["sigma"].pop()
    with pytest.raises(ValueError, match="2, 3 epochs"):
        curves_from_json(plain)


def test_significant_digits():
    assert [significant(value) for value in (123.456, 0.00123456, 0, -9.996)] == [123.0, 0.00123, 0.0, -10.0]
