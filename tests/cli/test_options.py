import pytest

from tnlpad.cli.options import read_list, read_seeds, read_settings


def test_seeds():
    assert read_seeds("1-3") == [1, 2, 3]
    assert read_seeds("1,2,5-6") == [1, 2, 5, 6]
    with pytest.raises(ValueError, match="write 1-3 or 1,2,5"):
        read_seeds("one")
    assert len(read_seeds("1-10000")) == 10_000
    for text in ("1-10001", "7,1-10000", f"1-{10**30}"):
        with pytest.raises(ValueError, match=rf"--seeds {text}: .*10,000 seeds"):
            read_seeds(text)


def test_settings():
    assert read_settings(["epochs=3", "noise=a=b", "epochs=4"]) == {"epochs": "4", "noise": "a=b"}
    for text in ("epochs", "=3"):
        with pytest.raises(ValueError, match=f"--set {text}: write NAME=VALUE"):
            read_settings([text])


def test_lists():
    assert read_list(" a, b,,c ") == ["a", "b", "c"]
    assert read_list("") == []
