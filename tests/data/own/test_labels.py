import datetime

import numpy as np
import pytest
import torch

from tnlpad.data.own.labels import as_number, encoded, further_label, label_as_given, notes_on_classes
from tnlpad.errors import DataError


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (" cat ", "cat"),
        ("", None),
        (None, None),
        (float("nan"), None),
        (3.0, 3),
        (True, 1),
        (np.float32(2), 2),
        (np.bool_(False), 0),
        (np.str_("x"), "x"),
        (b"x", "x"),
        (torch.tensor(4), 4),
    ],
)
def test_a_label_is_text_or_a_whole_number(value, label):
    assert label_as_given(value, "data") == label


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, "data: the label 0.5 is a number with a fraction"),
        ([1], "data: a label is a list"),
        (datetime.date(2020, 1, 1), "a label is a date\\."),
        (np.datetime64("2020-01-01", "ns"), "a label is a datetime64"),  # whose item is a whole number
        (b"\x89PNG\r\n", "data: a label is bytes that are not text"),
    ],
)
def test_what_is_no_label_is_refused(value, message):
    with pytest.raises(DataError, match=message):
        label_as_given(value, "data")


def test_numbers_are_sorted_as_numbers_and_names_as_names():
    labels, names = encoded(["10", "9", "x", "-1", 2, "10"], None)
    assert names == ("-1", "2", "9", "10", "x")
    assert labels.tolist() == [3, 2, 4, 0, 1, 3]
    assert labels.dtype == np.int64


def test_names_that_are_given_keep_their_order():
    labels, names = encoded([1, 0, "ant", "zebra"], ("zebra", "ant", "nobody"))
    assert (labels.tolist(), names) == ([1, 0, 1, 0], ("zebra", "ant", "nobody"))


def test_ten_thousand_classes():
    labels, names = encoded(list(range(10_000)), None)
    assert len(names) == 10_000
    assert labels.tolist() == list(range(10_000))


def test_large_numbers_are_told_apart():
    assert as_number("9223372036854775808") != as_number("9223372036854775809")
    assert as_number("1.0") == as_number("01") == 1
    assert [as_number(text) for text in ("1_0", "nan", "inf", "x", "")] == [None] * 5
    assert [as_number(sign + "9" * digits) for digits in (400, 5000) for sign in ("", "-")] == [None] * 4


def test_labels_that_name_samples_are_told_of():
    names = [f"patient {number}" for number in range(12)]
    assert list(notes_on_classes(np.arange(12), names)) == [
        "12 samples have 12 different labels: do these name samples rather than classes?"
    ]
    assert list(notes_on_classes(np.arange(9), names)) == []  # too few to tell
    assert list(notes_on_classes(np.arange(12) // 2, names)) == []
    assert list(notes_on_classes(np.full(12, -1), ())) == []


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("Cat", "cat", "dog"), "'Cat', 'cat'"),
        (("a  b", "a b"), "'a  b', 'a b'"),
        (("1", "01", "1.0", "2"), "'01', '1', '1.0'"),
        (("caf\u00e9", "cafe\u0301"), r"'cafe\u0301', 'caf\xe9'"),
        (("x", "x\u200b"), r"'x', 'x\u200b'"),
        (("a", "A", "b", "B", "c", "C", "d", "D"), "'A', 'a'; 'B', 'b'; 'C', 'c'; …"),
    ],
)
def test_classes_whose_names_hardly_differ_are_told_of(names, shown):
    (note,) = notes_on_classes(np.arange(len(names)).repeat(9), names)
    assert note == f"names of classes that hardly differ: {shown}. Are they the same class?"


def test_other_names_are_no_reason_for_a_note():
    names = ("a", "b", "ab", "a+b", "1", "11", "-1", "1000000000000000001", "1000000000000000002", "é", "e", "ß")
    assert list(notes_on_classes(np.arange(len(names)).repeat(9), names)) == []


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("7", [0, None, np.int8(1)], 7),
        ("7", [0.0, float("nan"), 1.0], 7),
        ("07", [0, 1], "07"),
        ("7.5", [0, 1], "7.5"),
        ("new", [0, 1], "new"),
        ("7", [False, True], "7"),
        ("7", ["0", "1"], "7"),
        ("7", [0, "1"], "7"),
    ],
)
def test_a_further_class_is_a_number_among_numbers(name, labels, value):
    found = further_label(name, labels)
    assert (found, type(found)) == (value, type(value))
