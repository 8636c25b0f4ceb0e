import os
import shutil
import time
from threading import Thread

import pytest
from filelock import FileLock

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.own import checked
from tnlpad.data.own.open import open_dataset
from tnlpad.data.progress import Silent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six pictures, whose record is kept in a cache of their own."""
    monkeypatch.setenv("TNLPAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checked, "MIN_REMEMBERED", 3)
    monkeypatch.setattr(checked, "FILES_AT_ONCE", 4)
    monkeypatch.setattr(checked, "SETTLED_NANOSECONDS", -(10**12))
    return class_folders(tmp_path / "data", ("cat", "dog"), 3)


@pytest.fixture
def read(monkeypatch):
    """The names of the files that were read since it was cleared."""
    names, probe = [], checked.probe

    def counted(path):
        names.append("/".join(path.split("/")[-2:]))
        return probe(path)

    monkeypatch.setattr(checked, "probe", counted)
    return names


def facts(own):
    return dict(zip(own.ids, own.image_info, strict=True))


def test_files_are_read_once(folder, read):
    first, second = open_dataset(folder), open_dataset(folder)
    assert len(read) == 6
    assert second.shape == first.shape
    assert facts(second) == facts(first)
    assert open_dataset(folder, labelled=False).ids[0] == "cat/0.png"
    assert len(read) == 6


def test_a_check_reads_all(folder, read):
    open_dataset(folder)
    open_dataset(folder, fresh=True)
    assert len(read) == 12


def test_what_was_added_or_changed_is_read(folder, read):
    before = open_dataset(folder)
    read.clear()
    old = folder / "dog" / "1.png"
    times = old.stat().st_atime_ns, old.stat().st_mtime_ns
    save(folder / "other.png", picture(99))
    content = (folder / "other.png").read_bytes()
    old.write_bytes(content[: old.stat().st_size].ljust(old.stat().st_size, b"\0"))
    os.utime(old, ns=times)  # its size and date are the same
    (folder / "other.png").unlink()
    save(folder / "ant" / "7.png", picture(7))
    (folder / "cat" / "0.png").unlink()
    after = open_dataset(folder)
    assert sorted(read) == ["ant/7.png", "dog/1.png"]
    assert list(after.ids) == ["ant/7.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png"]
    assert facts(after)["dog/1.png"] != facts(before)["dog/1.png"]
    assert facts(after)["dog/2.png"] == facts(before)["dog/2.png"]
    assert after.shape.fingerprint == open_dataset(folder, fresh=True).shape.fingerprint


def test_a_table_that_names_a_file_twice(folder, read, tmp_path):
    rows = [f"{place}/{number}.png,{place}" for place in ("cat", "dog") for number in (0, 1, 0)]
    (folder / "x.csv").write_text("\n".join(["path,label", *rows]))
    first, second = (open_dataset(folder / "x.csv") for _ in range(2))
    assert len(read) == 6
    assert (list(second.digests), second.shape) == (list(first.digests), first.shape)


def test_files_that_have_just_changed_may_change_again(folder, read, monkeypatch):
    monkeypatch.setattr(checked, "SETTLED_NANOSECONDS", 2 * 10**9)
    for _ in range(2):
        open_dataset(folder)
    assert len(read) == 12


def test_damaged_files_are_reported_every_time(folder, read):
    (folder / "cat" / "1.png").write_bytes(b"no image")
    for _ in range(2):
        own = open_dataset(folder)
        assert [problem.id for problem in own.problems] == ["cat/1.png"]
    assert (len(read), read[-1]) == (7, "cat/1.png")


def test_an_interrupted_check_goes_on(folder, monkeypatch):
    probe, seen = checked.probe, []

    def interrupted(path):
        if path.endswith("dog/1.png") and not seen:
            seen.append(path)
            raise KeyboardInterrupt
        return probe(path)

    monkeypatch.setattr(checked, "probe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_dataset(folder)
    again = []
    monkeypatch.setattr(checked, "probe", lambda path: again.append(path) or probe(path))
    assert len(open_dataset(folder).ids) == 6
    assert [path.rsplit("/", 1)[1] for path in again] == ["1.png", "2.png"]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"x" * 1000])
def test_a_damaged_record_is_made_again(folder, read, tmp_path, content):
    open_dataset(folder)
    (record,) = (tmp_path / "cache" / "checked").glob("*.npy")
    whole = record.read_bytes()
    for damaged in (content, whole[:-50]):
        record.write_bytes(damaged)
        open_dataset(folder)
    assert len(read) == 18
    assert record.read_bytes() == whole


def test_without_a_cache_everything_is_read(folder, read, tmp_path):
    (tmp_path / "cache").write_text("a file in its place")
    for _ in range(2):
        assert len(open_dataset(folder).ids) == 6
    assert len(read) == 12


def test_small_data_leave_no_record(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(checked, "MIN_REMEMBERED", 7)
    open_dataset(folder)
    assert not (tmp_path / "cache").exists()


def test_of_two_processes_one_reads_and_the_other_waits(folder, read, tmp_path):
    class Notes(Silent):
        said = ()

        def say(self, message):
            self.said += (message,)

    open_dataset(folder)
    read.clear()
    (lock,) = (tmp_path / "cache" / "checked").glob("*.lock")
    notes, opened = Notes(), []
    waiting = Thread(target=lambda: opened.append(open_dataset(folder, reporter=notes)))
    with FileLock(lock):
        waiting.start()
        deadline = time.monotonic() + 60
        while not notes.said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not opened
    waiting.join(60)
    assert "waiting" in notes.said[0]
    assert len(opened[0].ids) == 6
    assert read == []


def test_records_that_nobody_uses_are_removed(folder, tmp_path):
    open_dataset(folder)
    (record,) = (tmp_path / "cache" / "checked").glob("*.npy")
    os.utime(record, (0, time.time() - 2 * checked.UNUSED_SECONDS))
    shutil.copytree(folder, tmp_path / "copy")
    open_dataset(tmp_path / "copy")
    assert not record.exists()
