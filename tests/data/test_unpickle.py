import io
import os
import pickle
import pickletools
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tnlpad.data import unpickle as module
from tnlpad.errors import DataError


def unpickle(content, where="file"):
    return module.unpickle(io.BytesIO(content), where=where)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(0, 4))
def test_plain_values_are_read_as_pickle_reads_them(value, protocol):
    content = pickle.dumps(value, protocol=protocol)
    stream = io.BytesIO(content + b"more")
    assert module.unpickle(stream, where="file") == value
    assert stream.tell() == len(content)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(st.sampled_from(["u1", "<i8", ">i4", "f8", "?", "<u2"]), hnp.array_shapes(min_side=0, max_side=5)),
    st.integers(0, 4),
    st.booleans(),
)
def test_arrays_are_read_as_pickle_reads_them(array, protocol, fortran):
    array = np.asfortranarray(array) if fortran else array
    value = unpickle(pickle.dumps({"data": array}, protocol=protocol))
    assert type(value["data"]) is np.ndarray
    assert value["data"].dtype == array.dtype
    assert np.array_equal(value["data"], array, equal_nan=array.dtype.kind == "f")
    assert np.array_equal(
        unpickle(pickle.dumps(array, protocol=protocol)), value["data"], equal_nan=array.dtype.kind == "f"
    )


def test_scalars_of_numpy():
    content = pickle.dumps([np.int64(5), np.uint8(7)], protocol=2)
    assert unpickle(content) == [5, 7]


def test_batches_of_python_2():
    """Text and bytes were one type, keys and pixels are written as it, and names are those of old NumPy."""
    pixels = bytes(range(256))
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b"
        b"\x87Rq\x05(K\x01K\x02K\x80\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T\x00\x01\x00\x00" + pixels + b"tbU\x06labelsq\x08]q\t(K\x06K\x09eu."
    )
    value = unpickle(content)
    assert value["labels"] == [6, 9]
    assert np.array_equal(value["data"], np.arange(256, dtype=np.uint8).reshape(2, 128))


class Runs:
    """When unpickled in the ordinary way, calls a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("place", ["alone", "in the data", "as a label"])
def test_a_hostile_pickle_does_not_run(tmp_path, protocol, place):
    trace = tmp_path / "was here"
    hostile = Runs(os.mkdir, str(trace))
    value = {"alone": hostile, "in the data": {"data": hostile}, "as a label": {"labels": [1, hostile]}}[place]
    content = pickle.dumps(value, protocol=protocol)
    with pytest.raises(DataError, match=r"batch contains .*mkdir.*Nothing of it was run"):
        unpickle(content, where="batch")
    assert not trace.exists()
    pickle.loads(content)
    assert trace.exists()  # the attack is a real one


@pytest.mark.parametrize(
    "function",
    [eval, exec, open, getattr, __import__, os.unlink, subprocess.Popen, pickle.loads, np.load, np.fromfile],
)
def test_no_function_can_be_named(function):
    with pytest.raises(DataError, match="do not trust this file"):
        unpickle(pickle.dumps(Runs(function, "x"), protocol=2))


NDARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\n"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02c__builtin__\neval\nU\x011\x85R.",  # Python 2's name for it
        b"\x80\x02cos\nsystem\nU\x01x\x85R.",
        b"(S'echo'\nios\nsystem\n.",  # INST
        b"\x80\x02(cos\nsystem\nU\x01xo.",  # OBJ
        b"\x80\x02cos\nsystem\nU\x01x\x85\x81.",  # NEWOBJ
        b"\x80\x02cnumpy\nload\n.",
        b"\x80\x02cnumpy.core.multiarray\nfromfile\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93.",
        b"\x80\x02" + DTYPE + b"(U\x01OK\x00K\x01tR.",  # an array of objects
        b"\x80\x02" + DTYPE + b"(U\x02V8K\x00K\x01tR.",
        b"\x80\x02" + DTYPE + b"(U\x02u1tR(K\x03U\x01!NNNtb.",  # no byte order
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00xX\x05\x00\x00\x00utf-8\x86R.",
        b"N" * 1_100_000 + b".",  # endless instructions
        b"\x80\x02]r\xff\xff\xff\xff.",  # the standard unpickler allocates 64 GB for this memo index
    ],
)
def test_names_and_costs_that_the_published_files_do_not_have_are_refused(content):
    with pytest.raises(DataError, match=r"file contains .* do not trust this file"):
        unpickle(content)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02U\x01x\x85Q.",  # a persistent id, as torch writes for tensors
        b"\x82\x01.",  # an extension code
        b"\x80\x02" + NDARRAY + b"J\xff\xff\xff\x7f\x85R.",  # an array made directly, of 2 GB
        b"\x80\x02" + NDARRAY + b"}U\x01xK\x01sb.",  # a state for the stand-in itself
        b"\x80\x02" + ARRAY + b"}U\x01xK\x01sb.",
        b"\x80\x02" + DTYPE + b"}U\x01xK\x01sb.",
        b"\x80\x02" + ARRAY + b")R(K\x01K\x02\x85" + NDARRAY + b"\x89U\x02abtb.",  # no dtype
        b"\x80\x02" + ARRAY + b")R(K\x01K\x02\x85" + DTYPE + b"U\x02u1\x85R\x89]tb.",  # no bytes
        b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.",  # 2 GB of zeros
        b"\x80\x02cnumpy.core.multiarray\nscalar\n" + DTYPE + b"U\x02i8\x85RU\x011\x86R.",  # too few bytes
        b"\x80\x02B\xff\xff\xff\xffx.",  # bytes that claim to be 4 GB
    ],
)
def test_calls_that_no_published_file_makes_fail(content):
    with pytest.raises(DataError, match="file is not a readable pickle"):
        unpickle(content)


def test_states_given_to_stand_ins_change_nothing():
    """BUILD sets attributes of what has no __setstate__."""
    changed = b"c_codecs\nencode\nN}X\x0c\x00\x00\x00__defaults__K\x01\x85s\x86b0"
    assert unpickle(b"\x80\x02" + changed + b"K\x05.") == 5
    assert module._encode.__defaults__ is None


def test_an_array_cannot_claim_more_than_its_bytes():
    content = pickle.dumps({"data": np.zeros(10, np.uint8)}, protocol=2).replace(b"K\n\x85", b"J\xff\xff\xff\x7f\x85")
    assert b"J\xff\xff\xff\x7f" in content
    with pytest.raises(DataError, match="cannot reshape"):
        unpickle(content)


def test_an_array_without_content_is_none():
    assert unpickle(b"\x80\x02" + ARRAY + b")R.") is None


def example_content():
    batch = {"data": np.arange(60, dtype=np.uint8).reshape(5, 12), "labels": [1, 2, 3, 4, 5], "name": "batch"}
    return pickle.dumps(batch, protocol=2)


def test_every_truncation_is_noticed():
    content = example_content()
    for length in range(len(content)):
        with pytest.raises(DataError, match="file"):
            unpickle(content[:length])


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_give_our_error_or_a_value(content):
    read_or_refuse(content)


# Python itself warns of some of the nonsense that a damaged text can contain.
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes_give_our_error_or_a_value(changes):
    content = bytearray(example_content())
    for place, byte in changes:
        content[place % len(content)] = byte
    read_or_refuse(bytes(content))


OPCODES = st.sampled_from([op.code.encode("latin-1") for op in pickletools.opcodes])


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@settings(max_examples=300, deadline=None)
@given(st.lists(OPCODES | st.binary(max_size=5), max_size=40))
def test_random_instructions_give_our_error_or_a_value(parts):
    read_or_refuse(b"".join(parts) + b".")


def read_or_refuse(content):
    message = "random file"
    try:
        value = unpickle(content, where="random file")
    except DataError as error:
        value, message = None, str(error)
    assert not isinstance(value, np.ndarray) or value.nbytes <= len(content)
    assert "random file" in message


def test_several_in_a_row():
    stream = io.BytesIO()
    for value in (1, "two", [3]):
        pickle.dump(value, stream, protocol=2)
    stream.seek(0)
    assert [module.unpickle(stream, where="file") for _ in range(3)] == [1, "two", [3]]
