import os
import socket
import threading

import pytest

from tests.data.local_server import serving
from tests.data.small_data import Recorder, checksums
from tnlpad.data.catalogue import RemoteFile
from tnlpad.data.download import download
from tnlpad.errors import DataError, FetchError

CONTENT = os.urandom(700_000)


@pytest.fixture
def server():
    with serving({"file.bin": CONTENT}) as served:
        yield served


def remote(base, content=CONTENT, name="file.bin"):
    return RemoteFile(url=base + name, size=len(content), checksums=checksums(content))


def fetch(target, folder, **options):
    return download(target, folder, pause_seconds=0, **{"timeout_seconds": 5, **options})


def test_a_file_arrives_whole_and_under_its_name(server, tmp_path):
    base, behaviour = server
    recorder = Recorder()
    path = fetch(remote(base), tmp_path, reporter=recorder)
    assert path.read_bytes() == CONTENT
    assert [each.name for each in tmp_path.iterdir()] == ["file.bin"]
    assert recorder.steps[-1] == ("Downloading file.bin", len(CONTENT), len(CONTENT))
    fetch(remote(base), tmp_path)
    assert behaviour.requests == [("file.bin", None)]  # the second time nothing is asked for


def test_an_interrupted_download_is_continued_in_a_later_run(server, tmp_path):
    base, behaviour = server
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:300_000])
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests == [("file.bin", "bytes=300000-")]


def test_a_connection_that_ends_early_is_taken_up_again(server, tmp_path):
    base, behaviour = server
    behaviour.cut_after = [100_000, 50_000]
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests == [
        ("file.bin", None),
        ("file.bin", "bytes=100000-"),
        ("file.bin", "bytes=150000-"),
    ]


def test_a_connection_that_always_ends_early(server, tmp_path):
    base, behaviour = server
    behaviour.cut_after = [1000] * 4
    with pytest.raises(DataError, match=r"after 4,000 of 700,000 bytes.*same command"):
        fetch(remote(base), tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["file.bin.part"]
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT  # and indeed it continues
    assert behaviour.requests[-1] == ("file.bin", "bytes=4000-")


def test_many_early_ends_do_not_matter_as_long_as_much_arrives(tmp_path):
    content = bytes(8 << 20)
    with serving({"file.bin": content}) as (base, behaviour):
        behaviour.cut_after = [1 << 20] * 7
        assert fetch(remote(base, content), tmp_path).read_bytes() == content
        assert len(behaviour.requests) == 8


def test_a_server_that_ignores_the_wish_to_continue(server, tmp_path):
    base, behaviour = server
    behaviour.ranges = False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:300_000])
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests == [("file.bin", "bytes=300000-")]


def test_a_part_of_another_file_is_found_out_and_replaced(server, tmp_path):
    base, behaviour = server
    recorder = Recorder()
    (tmp_path / "file.bin.part").write_bytes(bytes(300_000))
    assert fetch(remote(base), tmp_path, reporter=recorder).read_bytes() == CONTENT
    assert behaviour.requests == [("file.bin", "bytes=300000-"), ("file.bin", None)]
    assert len(recorder.said) == 1
    assert "starting over" in recorder.said[0]


@pytest.mark.parametrize("extra", [0, 5])
def test_a_part_that_is_whole_or_longer(server, tmp_path, extra):
    base, behaviour = server
    (tmp_path / "file.bin.part").write_bytes(CONTENT + bytes(extra))
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests == ([] if extra == 0 else [("file.bin", None)])


def test_a_part_beyond_what_the_server_has(server, tmp_path):
    """416: the file there became shorter. It is asked for anew, and found to be another one."""
    base, behaviour = server
    behaviour.files["file.bin"] = CONTENT[:1000]
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:2000])
    with pytest.raises(DataError, match="it has 1,000 bytes, published are 700,000"):
        fetch(remote(base), tmp_path)
    assert behaviour.requests == [("file.bin", "bytes=2000-"), ("file.bin", None)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [None, 1000])
def test_wrong_bytes_leave_nothing_behind(server, tmp_path, part):
    base, behaviour = server
    flipped = bytearray(CONTENT)
    flipped[-1] ^= 1
    behaviour.files["file.bin"] = bytes(flipped)
    if part:
        (tmp_path / "file.bin.part").write_bytes(CONTENT[:part])
    with pytest.raises(DataError, match=r"file\.bin does not serve the published file: .* has sha256 .*, expected "):
        fetch(remote(base), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("announce", [True, False])
@pytest.mark.parametrize("content", [CONTENT + b"more", CONTENT[:-5], b"<html>Please log in</html>"])
def test_a_file_of_another_size(server, tmp_path, content, announce):
    base, behaviour = server
    behaviour.files["file.bin"], behaviour.announce = content, announce
    recorder = Recorder()
    with pytest.raises(DataError) as caught:
        fetch(remote(base), tmp_path, reporter=recorder)
    assert all(done <= total for _, done, total in recorder.steps)  # nothing beyond what was published is written
    assert "does not serve the published file" in str(caught.value)
    assert not isinstance(caught.value, FetchError)
    assert list(tmp_path.iterdir()) == []


def test_other_bytes_than_asked_for(server, tmp_path):
    base, behaviour = server
    behaviour.shift = 10
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    with pytest.raises(FetchError, match="requested bytes from 1,000 on"):
        fetch(remote(base), tmp_path)


def test_a_redirect_is_followed(server, tmp_path):
    base, behaviour = server
    behaviour.redirect["old.bin"] = base + "file.bin"
    path = fetch(remote(base, name="old.bin"), tmp_path)
    assert path.name == "old.bin"
    assert path.read_bytes() == CONTENT


def test_a_redirect_in_a_circle_or_to_a_file_of_this_machine(server, tmp_path):
    base, behaviour = server
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    for place in (base + "loop.bin", secret.as_uri()):
        behaviour.redirect["loop.bin"] = place
        with pytest.raises(FetchError, match=r"loop\.bin: the server responds 302"):
            fetch(remote(base, name="loop.bin"), tmp_path)
    assert not (tmp_path / "loop.bin").exists()


@pytest.mark.parametrize(("status", "words"), [(404, "404 Not Found"), (403, "403 Forbidden"), (503, "503")])
def test_a_refusal_is_passed_on(server, tmp_path, status, words):
    base, behaviour = server
    behaviour.status["file.bin"] = status
    with pytest.raises(FetchError, match=f"{base}file.bin: the server responds {words}"):
        fetch(remote(base), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_listens(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(FetchError, match="cannot be reached: Connection refused"):
        fetch(remote(f"http://127.0.0.1:{port}/"), tmp_path)
    with pytest.raises(FetchError, match="cannot be reached"):
        fetch(remote("http://no-such-host.invalid/"), tmp_path)


def test_a_host_that_never_answers_does_not_hold_us_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts the connection and says nothing
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(FetchError, match="cannot be reached: timed out"):
            fetch(remote(base), tmp_path, timeout_seconds=0.2)


def test_silence_in_the_middle_is_an_early_end(server, tmp_path):
    base, behaviour = server
    behaviour.stall = threading.Event()
    try:
        with pytest.raises(DataError, match="the connection ended"):
            fetch(remote(base), tmp_path, timeout_seconds=0.2)
    finally:
        behaviour.stall.set()
    kept = (tmp_path / "file.bin.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    behaviour.stall = None
    assert fetch(remote(base), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests[-1] == ("file.bin", f"bytes={kept}-")


def test_a_server_that_talks_nonsense(tmp_path):
    def nonsense(listener):
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.sendall(b"\x00\x01 not HTTP at all\r\n\r\n")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=nonsense, args=(listener,))
        thread.start()
        with pytest.raises(FetchError, match="cannot be reached"):
            fetch(remote(f"http://127.0.0.1:{listener.getsockname()[1]}/"), tmp_path)
        thread.join()
