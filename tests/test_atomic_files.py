"""Temporary files of killed processes are removed by the next writer of their folder, and no others."""

import os
import signal

import pytest

from tnlpad.atomic_files import replacing, replacing_folder, write_by_rename


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
