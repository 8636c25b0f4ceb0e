import hashlib
from dataclasses import replace

import numpy as np
import pytest

from tnlpad.noise import (
    LabelFile,
    LabelFileError,
    LabelMismatchError,
    MatrixFileError,
    corrupt,
    pairflip,
    read_label_file,
    symmetric,
    write_label_file,
)
from tnlpad.noise.files import labels_from_file, read_matrix


def content(seed=1, samples=200):
    noisy = corrupt(np.arange(samples) % 5, pairflip(0.4, 5), np.random.default_rng(seed))
    return LabelFile(noisy=noisy, dataset="digits", noise="pairflip:0.4", seed=seed, protocol="paper")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.npz"


def rewrite(path, **changes):
    """Write the archive again with changed entries; None removes an entry."""
    with np.load(path) as file:
        entries = {**{name: file[name] for name in file.files}, **changes}
    np.savez(path, **{name: value for name, value in entries.items() if value is not None})


@pytest.mark.parametrize(
    "other", [{}, {"inputs": "unit", "legacy_stream": True, "protocol": "authors", "dataset": "σ"}]
)
def test_what_is_written_is_read(path, other):
    written = replace(content(), **other)
    checksum = write_label_file(path, written)
    found = read_label_file(path)
    for name in ("given", "clean", "transition"):
        there, here = getattr(found.noisy, name), getattr(written.noisy, name)
        assert there.dtype == here.dtype
        np.testing.assert_array_equal(there, here)
    for name in ("dataset", "noise", "seed", "protocol", "inputs", "legacy_stream"):
        assert getattr(found, name) == getattr(written, name)
    assert checksum == write_label_file(path, found)


def test_numpy_alone_can_read_it(path):
    checksum = write_label_file(path, content(seed=7))
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) >= {"labels", "clean_labels", "seed", "transition", "checksum"}
        assert file["labels"].dtype == file["clean_labels"].dtype == np.int64
        assert file["seed"] == 7
        assert str(file["checksum"]) == checksum


def test_the_checksum_covers_the_whole_content(path, tmp_path):
    assert write_label_file(path, content()) == write_label_file(tmp_path / "again.npz", content())
    with np.load(path) as file:  # by hand: names, types, shapes and bytes in the order of the names
        parts = [
            f"{name}\0{file[name].dtype.str}\0{file[name].shape}\0".encode() + file[name].tobytes()
            for name in sorted(file.files)
            if name != "checksum"
        ]
        assert str(file["checksum"]) == "sha256:" + hashlib.sha256(b"".join(parts)).hexdigest()
    others = [
        content(seed=2),
        replace(content(), seed=2),
        replace(content(), dataset="mnist"),
        replace(content(), noise="pairflip:0.5"),
        replace(content(), inputs="raw"),
        replace(content(), legacy_stream=True),
        replace(content(), protocol="authors"),
    ]
    assert len({write_label_file(path, each) for each in (content(), *others)}) == 8


def test_an_empty_set_of_labels(path):
    write_label_file(path, content(samples=0))
    assert len(read_label_file(path).noisy.given) == 0


def other_labels():
    labels = content().noisy.given.copy()
    labels[3] = 4 - labels[3]
    return labels


@pytest.mark.parametrize(
    "changes",
    [{"labels": other_labels()}, {"seed": np.array(2)}, {"noise": np.array("none")}, {"more": np.zeros(1)}],
    ids=["labels", "seed", "noise", "another entry"],
)
def test_a_file_that_was_changed_is_refused(path, changes):
    write_label_file(path, content())
    rewrite(path, **changes)
    with pytest.raises(LabelFileError, match=r"was changed after it was written.*tnlpad noise"):
        read_label_file(path)


@pytest.mark.parametrize("name", ["labels", "clean_labels", "transition", "checksum", "format", "seed"])
def test_a_missing_entry(path, name):
    write_label_file(path, content())
    rewrite(path, **{name: None})
    with pytest.raises(LabelFileError, match=r"no entry '|was changed"):
        read_label_file(path)


def test_another_format(path):
    write_label_file(path, content())
    rewrite(path, format=np.array(2))
    with pytest.raises(LabelFileError, match=r"format 2, .* reads 1"):
        read_label_file(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.full(200, 5)}, r"labels\[0\] = 5"),
        ({"labels": np.zeros(199, dtype=int)}, "199 labels and 200 clean labels"),
        ({"transition": np.ones((5, 5))}, "sums to 5"),
        ({"seed": np.array("one")}, "'one'"),
    ],
)
def test_invalid_labels_with_a_correct_checksum_are_refused(path, changes, message, monkeypatch):
    write_label_file(path, content())
    rewrite(path, **changes)
    with np.load(path) as file:
        noted = str(file["checksum"])
    monkeypatch.setattr("tnlpad.noise.files._checksum", lambda arrays: noted)
    with pytest.raises(LabelFileError, match=message):
        read_label_file(path)


def test_damage_anywhere_is_detected_or_harmless(path):
    write_label_file(path, content())
    whole = path.read_bytes()
    expected = read_label_file(path).noisy.given
    noticed = 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            np.testing.assert_array_equal(read_label_file(path).noisy.given, expected)
        except LabelFileError as error:
            assert str(path) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > len(whole) / 7 / 2


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_file(path, keep):
    write_label_file(path, content())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LabelFileError, match="damaged"):
        read_label_file(path)


def test_files_that_are_not_label_files(path, tmp_path):
    with pytest.raises(LabelFileError, match="does not exist"):
        read_label_file(path)
    with pytest.raises(LabelFileError, match="cannot be read"):
        read_label_file(tmp_path)
    with path.open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(LabelFileError, match="not a label file"):
        read_label_file(path)
    np.savez(path, labels=np.array([{}], dtype=object))
    with pytest.raises(LabelFileError, match="not a label file"):
        read_label_file(path)


def test_a_huge_archive_is_not_unpacked(path, monkeypatch):
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [100])
    write_label_file(path, content())
    with pytest.raises(LabelFileError, match="of memory, and this machine or container has"):
        read_label_file(path)


def test_a_failed_write_leaves_the_old_file_and_no_other(path, monkeypatch):
    write_label_file(path, content())
    before = path.read_bytes()

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_label_file(path, content(seed=2))
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["labels.npz"]


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_cannot_be_stored(seed):
    with pytest.raises(ValueError, match=f"seed={seed}"):
        replace(content(), seed=seed)


def test_labels_are_used_only_for_their_samples(path):
    write_label_file(path, content())
    clean = np.arange(200) % 5
    np.testing.assert_array_equal(labels_from_file(path, clean, 5).given, content().noisy.given)
    with pytest.raises(LabelMismatchError, match=r"clean label 0 for sample 0, .* 4;"):
        labels_from_file(path, clean[::-1], 5)
    with pytest.raises(LabelMismatchError, match=r"has 200 labels, .* 100"):
        labels_from_file(path, clean[:100], 5)
    with pytest.raises(LabelFileError, match=r"has 5 classes, .* 6"):
        labels_from_file(path, clean, 6)


BY_HAND = [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]


def test_a_matrix_as_text_and_binary(tmp_path):
    text, binary = tmp_path / "m.csv", tmp_path / "m.npy"
    text.write_text("0.7, 0.2,0.1\n0,1,0\n\n0.25,0.25,.5\n")
    np.save(binary, np.array(BY_HAND, dtype=np.float32))
    np.testing.assert_array_equal(read_matrix(text, 3), BY_HAND)
    np.testing.assert_allclose(read_matrix(binary, 3), BY_HAND, atol=1e-7)


def test_a_matrix_with_a_byte_order_mark(tmp_path):
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
        ("m.csv", b"a,b\n0.5,0.5\n", "not a transition matrix"),
        ("m.csv", b"0.5,0.5\n1\n", "not a transition matrix"),
        ("m.csv", b"", "not a transition matrix"),
        ("m.csv", b"\xff\xfe\x00", "not a transition matrix"),
        ("m.csv", b"0.5,0.5\n0.5,0.5\n", "has 2 classes, .* 3"),
        ("m.npy", b"", "not a transition matrix"),
        ("m.npy", b"\x93NUMPY damaged", "not a transition matrix"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_invalid_matrices_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MatrixFileError, match=message) as caught:
        read_matrix(path, 3)
    assert str(path) in str(caught.value)


def test_a_pickled_matrix_is_not_opened(tmp_path):
    path = tmp_path / "m.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(MatrixFileError, match="not a transition matrix"):
        read_matrix(path, 3)


def test_a_missing_matrix_file(tmp_path):
    with pytest.raises(MatrixFileError, match="cannot be read: No such file"):
        read_matrix(tmp_path / "m.csv", 3)
