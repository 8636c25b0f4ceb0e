from typing import Literal

import pytest

from tnlpad.runs.settings import as_text, nearest, read


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("none", str | None, None),
        ("some", str | None, "some"),
        (None, int | None, None),
        ("TRUE", bool, True),
        (False, bool, False),
        ("5,,9,", tuple[int, ...], (5, 9)),
        (" 5 , 9 ", tuple[int, ...], (5, 9)),
        (" ", tuple[int, ...], ()),
        ("b", Literal["a", "b"], "b"),
        (3, float, 3.0),
        (3.0, int, 3),
    ],
)
def test_what_is_read(value, hint, expected):
    found = read("name", value, hint)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "rule"),
    [
        (["a"], Literal["a", "b"], "a or b"),  # what has no hash is no name
        ({}, bool, "true or false"),
        ([], int | None, "a whole number or none"),
        (None, tuple[int, ...], "whole numbers separated by commas"),
        ([True], tuple[int, ...], "whole numbers separated by commas"),
        ("9" * 400, int, "a whole number"),  # more than a machine can compute with
        (10**400, float, "a number"),
        ("-inf", float, "a number"),
        (False, float, "a number"),
        (1, str, "text"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_could(value, hint, rule):
    with pytest.raises(ValueError, match=f"^name=.*: must be {rule}\\.$"):
        read("name", value, hint)


def test_no_name_is_offered_where_none_is_near():
    assert nearest("x", ["resnet18", "lenet"]) == "."
    assert nearest("lenett", ["resnet18", "lenet"]) == "; did you mean lenet?"


@pytest.mark.parametrize(
    ("value", "text", "hint"),
    [
        (None, "none", int | None),
        (True, "true", bool),
        (False, "false", bool),
        ([5, 9], "5,9", tuple[int, ...]),
        ([], "", tuple[int, ...]),
        (1e-07, "1e-07", float),
        ("lenet", "lenet", str),
    ],
)
def test_what_is_written_is_read_again(value, text, hint):
    assert as_text(value) == text
    assert read("name", text, hint) == (tuple(value) if isinstance(value, list) else value)
