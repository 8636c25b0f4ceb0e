import gzip

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.data.small_data import idx_bytes
from tnlpad.data.errors import DataError
from tnlpad.data.idx import read_idx

MOST = 1 << 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("idx")


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4, max_side=6, min_side=0)), st.booleans())
def test_what_was_written_is_read(folder, array, compressed):
    path = folder / ("file.gz" if compressed else "file")
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if compressed else content)
    read = read_idx(path, most_bytes=MOST)
    assert np.array_equal(read, array)
    assert read.shape == array.shape
    assert read.flags.writeable


@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_is_noticed(folder, compressed):
    whole = idx_bytes(np.arange(40).reshape(10, 4))
    whole = gzip.compress(whole) if compressed else whole
    path = folder / ("short.gz" if compressed else "short")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="short"):
            read_idx(path, most_bytes=MOST)


def test_more_data_than_announced(folder):
    path = folder / "long"
    path.write_bytes(idx_bytes(np.zeros(10)) + b"\0")
    with pytest.raises(DataError, match="announces 10 = 10 bytes of data but holds 11"):
        read_idx(path, most_bytes=MOST)


def test_a_compressed_bomb_is_not_unpacked(folder):
    path = folder / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(DataError, match="more than 65,536 bytes"):
        read_idx(path, most_bytes=MOST)


def test_another_type_of_number(folder):
    path = folder / "floats"
    path.write_bytes(b"\0\0\x0d\x01\0\0\0\x01" + bytes(4))
    with pytest.raises(DataError, match="0x00000d01"):
        read_idx(path, most_bytes=MOST)


def test_a_missing_file_and_a_folder_in_its_place(folder):
    with pytest.raises(DataError, match="nowhere cannot be read: No such file"):
        read_idx(folder / "nowhere", most_bytes=MOST)
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(folder, most_bytes=MOST)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64), st.booleans())
@example(b"\0\0\x08\x04" + b"\xff" * 16, False)  # announces more than any memory holds
def test_random_bytes_give_our_error_or_an_array(folder, content, compressed):
    path = folder / ("random.gz" if compressed else "random")
    path.write_bytes(content)
    try:
        size, message = read_idx(path, most_bytes=MOST).size, None
    except DataError as error:
        size, message = 0, str(error)
    assert size <= len(content)
    assert message is None or path.name in message
