import errno
import gzip
import os
import struct
import sys
from pathlib import Path

import pytest

from tnlpad.data.files import default_root, read_bounded, read_lines, readable_as
from tnlpad.errors import DataError


@pytest.mark.parametrize("error", [struct.error("short"), RuntimeError(), RecursionError("deep"), EOFError("early")])
def test_what_another_library_raises_of_damaged_bytes_becomes_our_error(tmp_path, error):
    with pytest.raises(DataError, match=r"x\.npz cannot be read"), readable_as(".npz", tmp_path / "x.npz"):
        raise error


def test_our_own_errors_and_a_full_disk_stay_as_they_are(tmp_path):
    for error in (DataError("two columns of one name"), OSError(errno.ENOSPC, "No space left on device")):
        with pytest.raises(type(error)) as raised, readable_as("Parquet", tmp_path / "x.parquet"):
            raise error
        assert raised.value is error


def test_no_more_is_read_than_was_announced(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    assert len(read_bounded(tmp_path / "x.gz", 1_000_000)) == 1_000_000
    with pytest.raises(DataError, match="holds more than 999,999 bytes"):
        read_bounded(tmp_path / "x.gz", 999_999)


def test_lines_are_text_in_utf8(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbf one \r\n\r\ntwo")
    assert read_lines(tmp_path / "x.txt") == ["one", "two"]
    (tmp_path / "x.txt").write_bytes(b"one\xff")
    with pytest.raises(DataError, match="not a text file in UTF-8"):
        read_lines(tmp_path / "x.txt")


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("TNLPAD_DATA", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("TNLPAD_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "tnlpad" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # invalid by the specification
    assert default_root() == Path.home() / ".cache" / "tnlpad" / "data"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_root() == Path.home() / "Library" / "Caches" / "tnlpad" / "data"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", os.fspath(tmp_path))
    assert default_root() == tmp_path / "tnlpad" / "data"
