import numpy as np
import pytest

from tnlpad.noise import MatrixFileError, symmetric
from tnlpad.noise.matrix_file import read_matrix

BY_HAND = [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]


def test_text_and_binary(tmp_path):
    text, binary = tmp_path / "m.csv", tmp_path / "m.npy"
    text.write_text("0.7, 0.2,0.1\n0,1,0\n\n0.25,0.25,.5\n")
    np.save(binary, np.array(BY_HAND, dtype=np.float32))
    np.testing.assert_array_equal(read_matrix(text, 3), BY_HAND)
    np.testing.assert_allclose(read_matrix(binary, 3), BY_HAND, atol=1e-7)


def test_ten_classes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "m.csv"
    np.savetxt(path, symmetric(0.4, 10), delimiter=",", fmt="%.4f")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    transition = read_matrix(path, 10)
    np.testing.assert_allclose(transition, symmetric(0.4, 10), atol=1e-3)
    np.testing.assert_allclose(transition.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", b"0.5,0.5\n0.4,0.5\n", "Row 1 of transition sums to 0.9"),
        ("m.csv", b"a,b\n0.5,0.5\n", "holds no transition matrix"),
        ("m.csv", b"0.5,0.5\n1\n", "holds no transition matrix"),
        ("m.csv", b"", "holds no transition matrix"),
        ("m.csv", b"\xff\xfe\x00", "holds no transition matrix"),
        ("m.csv", b"0.5,0.5\n0.5,0.5\n", "of 2 classes, and the dataset has 3"),
        ("m.npy", b"", "holds no transition matrix"),
        ("m.npy", b"\x93NUMPY damaged", "holds no transition matrix"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_matrix_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MatrixFileError, match=message) as caught:
        read_matrix(path, 3)
    assert str(path) in str(caught.value)


def test_a_pickle_is_not_opened(tmp_path):
    path = tmp_path / "m.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(MatrixFileError, match="holds no transition matrix"):
        read_matrix(path, 3)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(MatrixFileError, match="cannot be read: No such file"):
        read_matrix(tmp_path / "m.csv", 3)
