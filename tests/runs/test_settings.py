from dataclasses import dataclass, fields
from typing import Literal

import pytest

from tnlpad.methods import METHODS
from tnlpad.runs.config import NOT_SETTABLE, RunConfig, configure, settings_listing, with_settings
from tnlpad.runs.settings import as_text, field_comments, nearest, read


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


@dataclass
class Base:
    """A class.

    Args:
        rate: Not the comment.
    """

    rate: float = 0.5  # learning rate
    size: int = 3


@dataclass
class Derived(Base):
    size: int = 4  # number of samples


def test_the_comments_of_fields_are_read_from_the_class_that_declares_them():
    assert field_comments(Base) == {"rate": "learning rate", "size": ""}
    assert field_comments(Derived) == {"rate": "learning rate", "size": "number of samples"}


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_is_listed_with_its_value_and_meaning(method):
    config = configure("digits", method=method, noise="symmetric:0.4", settings={"epochs": 7})
    listing = settings_listing(config)
    names = [field.name for field in fields(RunConfig) if field.name not in NOT_SETTABLE]
    assert [name for name, _, _ in listing] == [*names, *config.options]
    comments = field_comments(RunConfig) | field_comments(METHODS[method].config)
    assert [name for name, _, meaning in listing if not comments[name] or comments[name] not in meaning] == []
    assert with_settings(config, {name: value for name, value, _ in listing}) == config
    assert ("epochs", "7", "number of epochs (at least 1)") in listing
