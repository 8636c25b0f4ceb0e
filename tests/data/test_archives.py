import gzip
import io
import re
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnlpad.data.archives import extract_files, extract_tree, gunzip
from tnlpad.errors import DataError


def write_tar(path, members):
    """Members are (name, content) or ready-made TarInfo objects."""
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_only_what_is_wanted_is_taken(tmp_path):
    archive = tmp_path / "a.tar.gz"
    members = [("data/one", b"1"), ("data/other", b"x"), ("./data/two", b"22"), ("../outside", b"x"), ("/abs", b"x")]
    write_tar(archive, [*members, link("data/link", "/etc/passwd")])
    target = tmp_path / "out"
    extract_files(archive, {"data/one": target / "1", "data/two": target / "sub" / "2"}, max_bytes=10)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == ["1", "sub", "sub/2"]
    assert (target / "sub" / "2").read_bytes() == b"22"
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("data/one", b"12345678901"), "has 11 bytes; the published file has at most 10"),
        (link("data/one", "/etc/passwd"), "is a link or folder"),
        (("data/another", b"1"), "does not contain data/one"),
    ],
)
def test_a_member_of_another_kind(tmp_path, member, words):
    archive = tmp_path / "a.tar.gz"
    write_tar(archive, [member])
    with pytest.raises(DataError, match=words):
        extract_files(archive, {"data/one": tmp_path / "1"}, max_bytes=10)
    assert not (tmp_path / "1").exists()


def test_a_tree_stays_within_its_folder(tmp_path):
    archive = tmp_path / "a.tar.gz"
    good = [("food/images/pie/1.jpg", b"1"), ("food/meta/train.txt", b"2")]
    bad = [("food/images/../../../evil.jpg", b"x"), ("/food/images/pie/2.jpg", b"x"), ("food/images/.DS_Store", b"x")]
    write_tar(archive, good + bad)
    pattern = re.compile(r"food/(images/[a-z]+/[0-9]+\.jpg|meta/[a-z]+\.txt)")
    count = extract_tree(archive, pattern, tmp_path / "out", max_bytes=10, progress=lambda _: None)
    assert count == 2
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["1.jpg", "a.tar.gz", "train.txt"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_archives_give_our_error_or_the_files(tmp_path_factory, cut, place, byte):
    folder = tmp_path_factory.mktemp("damaged")
    archive = folder / "a.tar.gz"
    write_tar(archive, [("data/one", bytes(range(256)) * 20), ("data/two", b"22")])
    content = bytearray(archive.read_bytes())
    content[place % len(content)] = byte
    archive.write_bytes(content[: len(content) - cut % len(content)])
    try:
        extract_files(archive, {"data/one": folder / "1", "data/two": folder / "2"}, max_bytes=6000)
        complete = True
    except DataError:
        complete = False
    assert not complete or (folder / "2").stat().st_size == 2


def test_an_archive_that_ends_within_its_header(tmp_path):
    archive = tmp_path / "a.tar.gz"
    write_tar(archive, [("data/one", b"1")])
    content = bytearray(archive.read_bytes())
    content[3] |= 4  # there are extra fields
    for length in range(14):
        archive.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"a\.tar\.gz"):
            extract_files(archive, {"data/one": tmp_path / "1"}, max_bytes=10)


def test_gunzip_stops_at_the_size_published(tmp_path):
    source, target = tmp_path / "a.gz", tmp_path / "a"
    source.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(DataError, match="unpacks to more than the 5,000,000 bytes"):
        gunzip(source, target, max_bytes=5_000_000)
    assert target.stat().st_size <= 5_000_000
    gunzip(source, target, max_bytes=10_000_000)
    assert target.read_bytes() == bytes(10_000_000)


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda _: b"no gzip", lambda _: b""])
def test_gunzip_of_damaged_files(tmp_path, damage):
    source = tmp_path / "a.gz"
    source.write_bytes(damage(gzip.compress(bytes(range(256)) * 100)))
    if source.stat().st_size == 0:  # an empty file is an empty archive to gzip; the checksum of the content finds it
        gunzip(source, tmp_path / "a", max_bytes=10**6)
        assert (tmp_path / "a").read_bytes() == b""
        return
    with pytest.raises(DataError, match=r"a\.gz cannot be read"):
        gunzip(source, tmp_path / "a", max_bytes=10**6)
