import numpy as np
import pytest

from tnlpad.data.pickled_arrays import CALLS, Name, Refused, UnfinishedArray, UnfinishedDType, finished


def filled(state):
    array = UnfinishedArray()
    array.build(state)
    return array


def test_an_array_is_made_of_its_bytes():
    kind = UnfinishedDType("u2")
    kind.build((3, ">"))
    array = filled((1, (1, 2), kind, False, b"\x01\x00\x00\x02"))
    assert finished({"data": array, "name": "x"})["data"].tolist() == [[256, 2]]
    by_columns = filled((1, (2, 2), UnfinishedDType("u1"), True, "\x01\x02\x03\xff"))  # text of Python 2 is bytes
    assert finished(by_columns).tolist() == [[1, 3], [2, 255]]


@pytest.mark.parametrize(
    "state",
    [
        None,
        (1, (2,), "u1", False, b"ab"),
        (1, (2,), UnfinishedDType("u1"), False, [1, 2]),
        (1, (3,), UnfinishedDType("u1"), False, b"ab"),
        (1, (-1, -2), UnfinishedDType("u1"), False, b"ab"),
        (1, (True, 2), UnfinishedDType("u1"), False, b"ab"),
        (1, (1,) * 8 + (2,), UnfinishedDType("u1"), False, b"ab"),
        (1, 2, UnfinishedDType("u1"), False, b"ab"),
    ],
)
def test_other_states_are_refused(state):
    with pytest.raises(Refused, match="an array"):
        filled(state)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("numpy dtype", ("O",)),
        ("numpy dtype", ("V8",)),
        ("_codecs encode", ("x", "utf-8")),
        ("_codecs encode", (b"x", "latin1")),
        ("__builtin__ bytes", (1 << 40,)),
        ("numpy.core.multiarray scalar", (UnfinishedDType("i8"), b"1")),
        ("numpy._core.multiarray scalar", ("i8", b"12345678")),
    ],
)
def test_calls_that_no_data_need_are_refused(name, arguments):
    with pytest.raises(Refused):
        CALLS[name](*arguments)


def test_a_dtype_keeps_to_plain_numbers():
    kind = CALLS["numpy dtype"]("f4", False, True)
    kind.build((3, "<", None))
    assert kind.dtype == np.dtype("<f4")
    with pytest.raises(Refused, match="a dtype"):
        kind.build((3, "!"))


@pytest.mark.parametrize("value", [UnfinishedArray(), UnfinishedDType("u1"), Name("numpy ndarray")])
def test_what_was_never_finished_is_no_data(value):
    for given in (value, {"data": value}):
        with pytest.raises(Refused, match="no data"):
            finished(given)
