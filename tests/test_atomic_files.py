"""Temporary files of killed processes are removed by the next writer of their folder, and no others."""

import os
import signal
import threading

import pytest

import tnlpad.atomic_files as atomic_files
from tnlpad.atomic_files import remove_leftovers, replacing, replacing_folder, write_by_rename


def write_half_a_file(folder):
    with replacing(folder / "index.html") as file:
        file.write(b"half")
        file.flush()
        signal.pause()


def write_half_a_folder(folder):
    with replacing_folder(folder / "cleaned") as temporary:
        (temporary / "0.png").write_bytes(b"half")
        signal.pause()


def paused(act, folder):
    """Start a process that stops in the middle of its work, and return its id once there is something to see."""
    child = os.fork()
    if not child:
        try:
            act(folder)
        finally:
            os._exit(1)
    while not any(each.is_file() and each.stat().st_size for each in folder.rglob("*")):
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    return child


def kill(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("act", [write_half_a_file, write_half_a_folder])
def test_leftovers_are_removed_once_their_process_is_dead(tmp_path, act):
    child = paused(act, tmp_path)
    try:
        write_by_rename(tmp_path / "other.csv", b"complete")
        (left,) = tmp_path.glob(".*.tmp")  # its process is alive
    finally:
        kill(child)
    assert left.exists()
    write_by_rename(tmp_path / "other.csv", b"complete")
    assert [each.name for each in tmp_path.iterdir()] == ["other.csv"]


def test_files_of_others_stay(tmp_path):
    names = [".x.tmp", ".index.html.12.tmp", "x.12.tnlpad.tmp", ".tnlpad.tmp", ".x.y.tnlpad.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / "away").write_text("mine")
    (tmp_path / ".link.12.tnlpad.tmp").symlink_to(tmp_path / "away")
    write_by_rename(tmp_path / "index.html", b"complete")
    assert {each.name for each in tmp_path.iterdir()} >= {*names, "away", ".link.12.tnlpad.tmp"}


def test_two_writers_of_one_folder_do_not_disturb_each_other(tmp_path):
    children = []
    for number in range(3):
        children.append(os.fork())
        if not children[-1]:
            try:
                for _ in range(200):
                    write_by_rename(tmp_path / "shared", bytes([number]) * 1000)
                os._exit(0)
            finally:
                os._exit(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert [each.name for each in tmp_path.iterdir()] == ["shared"]
    assert len(set((tmp_path / "shared").read_bytes())) == 1


def test_an_error_leaves_nothing(tmp_path):
    write_by_rename(tmp_path / "kept", b"before")
    with pytest.raises(TypeError), replacing(tmp_path / "kept") as file:
        file.writelines([b"after", None])
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"kept": b"before"}


LONG_NAME = "σ" * 125 + ".csv"  # 254 bytes


def test_threads_of_the_same_number_on_two_hosts_have_temporary_files_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "get_native_id", lambda: 7)
    monkeypatch.setattr(atomic_files, "remove_leftovers", lambda folder: None)
    with replacing(tmp_path / "x") as first, replacing(tmp_path / "x") as second:
        first.write(b"first")
        second.write(b"second")
        assert len(list(tmp_path.glob(".x.7.*.tnlpad.tmp"))) == 2
    assert (tmp_path / "x").read_bytes() == b"first"


def test_leftovers_of_this_and_earlier_versions_are_removed(tmp_path):
    for name in (".x.csv.12.tnlpad.tmp", ".x.csv.12.0123abcd.tnlpad.tmp"):
        (tmp_path / name).write_text("half")
    (tmp_path / ".x.csv.12.mine.tnlpad.tmp").write_text("mine")
    remove_leftovers(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [".x.csv.12.mine.tnlpad.tmp"]


def test_a_pipe_that_is_named_like_a_leftover_is_no_reason_to_wait(tmp_path):
    pipe = tmp_path / ".x.12.tnlpad.tmp"
    os.mkfifo(pipe)
    write_by_rename(tmp_path / "x", b"complete")
    assert pipe.is_fifo()


def test_the_longest_names_can_be_written(tmp_path):
    write_by_rename(tmp_path / LONG_NAME, b"complete")
    assert (tmp_path / LONG_NAME).read_bytes() == b"complete"
    (tmp_path / LONG_NAME).unlink()
    with replacing_folder(tmp_path / LONG_NAME):
        (temporary,) = tmp_path.iterdir()
        assert atomic_files.TEMPORARY.fullmatch(temporary.name)
    assert (tmp_path / LONG_NAME).is_dir()


def test_a_name_that_is_too_long_is_said_to_be(tmp_path):
    with pytest.raises(OSError, match="choose a shorter one"):
        write_by_rename(tmp_path / (LONG_NAME + "xx"), b"")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "x", tmp_path / "link"
    link.symlink_to(file)
    for content in (b"new", b"replaced"):
        write_by_rename(link, content)
        assert (link.is_symlink(), file.read_bytes()) == (True, content)


def test_a_pipe_or_device_does_not_become_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "null"):
        with pytest.raises(OSError, match="pipe or a device"):
            write_by_rename(tmp_path / name, b"lost")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["null", "pipe"]
