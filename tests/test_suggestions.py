import pytest

from tnlpad.suggestions import nearest

KNOWN = {"resnet18": 1, "resnet34": 2, "lenet": 3, "food101": 4}


@pytest.mark.parametrize(
    ("name", "meant"),
    [("resnet19", "resnet18"), ("lent", "lenet"), ("food", "food101"), ("lenet", "lenet"), ("x", None), ("", None)],
)
def test_the_one_most_alike_or_none(name, meant):
    assert nearest(name, KNOWN) == meant


def test_nothing_is_near_when_nothing_is_known():
    assert nearest("lenet", []) is None
