import errno
import json
import multiprocessing
import os
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from tests.edited_runs import edit, without_checksums
from tests.synthetic_runs import write_run
from tnlpad.atomic_files import is_disk_full, write_by_rename
from tnlpad.grid.grid import run_status
from tnlpad.paper.cells import Experiment
from tnlpad.records.archive import finished_records
from tnlpad.records.store import (
    LOCK_TIMEOUT_SECONDS,
    RecordError,
    RunFolder,
    RunInUse,
    find_runs,
    to_json,
)
from tnlpad.records.summaries import finished_summary

CONFIG = {"dataset": "digits", "milestones": [10, 20]}


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "runs" / "a")
    run.begin(CONFIG)
    return run


def epoch(number, **more):
    return {"epoch": number, "validation_accuracy": 1 / 3, "test_accuracy": None, **more}


def names(path):
    return sorted(each.name for each in path.iterdir())


def test_records_are_read_back(folder):
    folder.append_epoch(epoch(1, note="σ"))
    folder.append_epoch(epoch(2))
    folder.finish({"epochs_run": 2})
    again = RunFolder(folder.path)
    assert (again.config(), again.summary()) == (CONFIG, {"epochs_run": 2})
    assert again.epochs() == [epoch(1, note="σ"), epoch(2)]
    assert names(folder.path) == ["config.json", "epochs.jsonl", "summary.json"]


def test_the_same_records_are_the_same_bytes(tmp_path):
    folders = [RunFolder(tmp_path / name) for name in "ab"]
    for each in folders:
        each.begin(CONFIG)
        each.append_epoch(epoch(1))
        each.finish({"b": 1, "a": [0.1, None]})
    for name in names(folders[0].path):
        assert (folders[0].path / name).read_bytes() == (folders[1].path / name).read_bytes()


def test_begun_and_finished(tmp_path):
    folder = RunFolder(tmp_path / "new")
    assert (folder.begun, folder.finished, folder.epochs()) == (False, False, [])
    folder.begin(CONFIG)
    assert (folder.begun, folder.finished) == (True, False)
    folder.finish({})
    assert (folder.begun, folder.finished) == (True, True)


def test_beginning_again_needs_the_same_configuration(folder):
    folder.begin({**CONFIG, "milestones": (10, 20)})  # as a tuple it is the same JSON
    with pytest.raises(RecordError, match=r"config\.json describes another run.* another --out"):
        folder.begin({**CONFIG, "dataset": "mnist"})
    assert folder.config() == CONFIG


def test_a_finished_run_is_never_overwritten(folder):
    folder.finish({"number": 1})
    with pytest.raises(RecordError, match=r"summary\.json exists already.* never overwritten"):
        folder.finish({"number": 2})
    assert folder.summary() == {"number": 1}


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RecordError, match="in the way"):
            RunFolder(path).begin(CONFIG)
        with pytest.raises(RecordError, match="in the way"), RunFolder(path).lock():
            pytest.fail("locked a file")
    assert (tmp_path / "file").read_text() == "kept"


def test_find_runs(tmp_path):
    for name in ("b", "a"):
        RunFolder(tmp_path / name).begin(CONFIG)
    (tmp_path / "no run").mkdir()
    (tmp_path / "file").write_text("")
    assert [run.path.name for run in find_runs(tmp_path)] == ["a", "b"]
    assert list(find_runs(tmp_path / "nowhere")) == []


def test_a_partial_line_counts_as_not_written(folder):
    folder.append_epoch(epoch(1))
    whole = folder.epochs_file.read_bytes()
    folder.append_epoch(epoch(2))
    both = folder.epochs_file.read_bytes()
    for size in range(len(whole), len(both)):
        folder.epochs_file.write_bytes(both[:size])
        assert folder.epochs() == [epoch(1)]
    folder.keep_epochs(1)
    assert folder.epochs_file.read_bytes() == whole
    folder.append_epoch(epoch(2))
    assert folder.epochs_file.read_bytes() == both


def test_later_epochs_are_dropped(folder):
    for number in (1, 2, 3):
        folder.append_epoch(epoch(number))
    folder.keep_epochs(1)
    assert folder.epochs() == [epoch(1)]
    with pytest.raises(RecordError, match=r"1 epochs, but the checkpoint was taken after epoch 2"):
        folder.keep_epochs(2)


@pytest.mark.parametrize(
    "damage",
    [
        b'{"epoch": 1, "loss"\n',
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"epoch": 2}\n',
        b'{"epoch": 1, "loss": NaN}\n',
        b"\0\0\0\n",
        b"\n",
    ],
)
def test_a_damaged_line_is_reported(folder, damage):
    folder.epochs_file.write_bytes(damage + json.dumps(epoch(2)).encode() + b"\n")
    for reading in (folder.epochs, lambda: folder.keep_epochs(0)):
        with pytest.raises(RecordError, match=r"epochs\.jsonl is damaged \(line 1.*Restore it, or remove"):
            reading()
    assert folder.epochs_file.read_bytes().startswith(damage)


@pytest.mark.parametrize("name", ["config", "summary"])
@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"[]", b"\xff", b'{"a": Infinity}'])
def test_a_damaged_file_is_reported(folder, name, content):
    (folder.path / f"{name}.json").write_bytes(content)
    with pytest.raises(RecordError, match=rf"{name}\.json is damaged \(.*Restore it, or remove"):
        getattr(folder, name)()
    with pytest.raises(RecordError):
        folder.begin(CONFIG) if name == "config" else folder.finish({})
    assert (folder.path / f"{name}.json").read_bytes() == content


def test_a_folder_where_a_file_should_be(folder):
    folder.epochs_file.mkdir()
    with pytest.raises(RecordError, match=r"epochs\.jsonl is damaged"):
        folder.epochs()
    folder.summary_file.mkdir()
    with pytest.raises(RecordError, match=r"summary\.json is damaged"):
        folder.summary()


def test_a_missing_summary(folder):
    with pytest.raises(RecordError, match=r"summary\.json does not exist"):
        folder.summary()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused(folder, value):
    folder.append_epoch(epoch(1))
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": value})
    with pytest.raises(ValueError, match="JSON"):
        folder.append_epoch(epoch(2, value=value))
    assert folder.epochs() == [epoch(1)]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_everything_as_it_was(folder, monkeypatch, call):
    path = folder.path / "some.json"
    write_by_rename(path, b"before")
    before = names(folder.path)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        write_by_rename(path, b"after")
    with pytest.raises(OSError, match="No space"):
        folder.finish({})
    assert not folder.finished
    assert path.read_bytes() == b"before"
    assert names(folder.path) == before


@pytest.mark.parametrize("earlier", [0, 2])
def test_a_line_that_does_not_fit_on_the_disk_is_removed(folder, monkeypatch, earlier):
    for number in range(1, earlier + 1):
        folder.append_epoch(epoch(number))
    before = {name: (folder.path / name).read_bytes() for name in names(folder.path)}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            folder.append_epoch(epoch(earlier + 1))
    assert {name: (folder.path / name).read_bytes() for name in names(folder.path)} == before
    folder.append_epoch(epoch(earlier + 1))
    assert len(folder.epochs()) == earlier + 1


def test_a_disk_that_is_really_full(folder):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    folder.epochs_file.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        folder.append_epoch(epoch(1))


def test_temporary_files_of_a_killed_process_are_removed(folder):
    (folder.path / ".checkpoint.pt.123.tnlpad.tmp").write_bytes(b"half")
    folder.begin(CONFIG)
    assert names(folder.path) == ["config.json"]


def hold(path, held, release):
    with RunFolder(path).lock():
        held.set()
        release.wait(20)


def test_two_processes_cannot_lock_the_same_run(folder):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(folder.path, held, release))
    other.start()
    assert held.wait(20)
    assert folder.in_use
    with pytest.raises(RunInUse, match="in use by another process"), folder.lock():
        pytest.fail("both have it")
    other.kill()  # the lock dies with its holder
    other.join()
    assert not folder.in_use
    with folder.lock():
        pass


def test_the_lock_waits_for_a_short_while(folder):
    look = FileLock(folder.lock_file, thread_local=False)
    look.acquire()
    instant = threading.Timer(LOCK_TIMEOUT_SECONDS / 10, look.release)
    instant.start()
    with folder.lock():
        assert folder.in_use
    instant.join()


def test_in_use_leaves_nothing_and_blocks_no_one(tmp_path):
    run = RunFolder(tmp_path / "run")
    assert not run.in_use
    assert not run.path.exists()
    with run.lock():
        assert run.in_use
    stop = threading.Event()

    def look():
        while not stop.wait(0.005):
            RunFolder(run.path).in_use  # noqa: B018

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            with run.lock():
                pass
    finally:
        stop.set()
        looking.join()


def test_the_lock_is_released_after_an_error(folder):
    with pytest.raises(ZeroDivisionError), folder.lock():
        raise ZeroDivisionError
    with folder.lock(), pytest.raises(RecordError), RunFolder(folder.path).lock():
        pytest.fail("locked twice")


def test_an_error_is_kept_until_the_run_is_finished(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "a")
    assert folder.keep_error("where it was") == folder.error_file  # also of a run that never began
    folder.keep_error("where it is now")
    assert folder.error_file.read_text() == "where it is now"
    assert not folder.begun
    folder.begin(CONFIG)
    assert folder.error_file.exists()
    folder.finish({"a": 1})
    assert names(folder.path) == ["config.json", "summary.json"]


def raised_while_handling(cause):
    try:
        try:
            raise cause
        except OSError:
            raise RuntimeError("could not clear up") from None
    except RuntimeError as error:
        return error


def raised_from(cause):
    try:
        raise RuntimeError("could not write") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_recognised_behind_another_error(number):
    full = OSError(number, "no space")
    assert is_disk_full(full)
    assert is_disk_full(raised_from(full))
    assert is_disk_full(raised_while_handling(full))
    assert not is_disk_full(raised_from(PermissionError(errno.EACCES, "not yours")))
    assert not is_disk_full(ValueError("28"))


def test_errors_that_are_raised_from_each_other():
    first = OSError(errno.EIO, "broken")
    first.__cause__ = raised_from(first)
    assert not is_disk_full(first)


DIGITS = Experiment(dataset="digits", noise="symmetric:0.4", method="tnlpad")


@pytest.fixture
def finished_folder(tmp_path):
    return write_run(tmp_path / "runs", DIGITS, 1)


DAMAGE = {
    "summary cut off": (lambda run: run.summary_file.write_text("{"), r"summary\.json is damaged"),
    "summary of something": (lambda run: run.summary_file.write_text("{}"), "run_id is missing"),
    "no accuracy": (
        lambda run: edit(run.summary_file, lambda s: s["last"].pop("test_accuracy")),
        r"last\.test_accuracy is None",
    ),
    "a number for a reason": (
        lambda run: edit(run.summary_file, lambda s: s.update(stopped=3)),
        "stopped is 3, not a text",
    ),
    "another summary": (lambda run: edit(run.summary_file, lambda s: s.update(run_id="x")), "of another run"),
    "another recipe": (lambda run: edit(run.config_file, lambda c: c.update(momentum=0.5)), "of another run"),
    "no configuration": (lambda run: run.config_file.unlink(), r"config\.json does not exist"),
    "an epoch lost": (
        lambda run: run.epochs_file.write_bytes(b"".join(run.epochs_file.read_bytes().splitlines(True)[:-1])),
        r"epochs\.jsonl has 5 of 6 epochs",
    ),
    "an epoch cut off": (lambda run: run.epochs_file.write_bytes(run.epochs_file.read_bytes()[:-9]), "has 5 of 6"),
    "no epochs": (lambda run: run.epochs_file.unlink(), "has 0 of 6 epochs"),
    "an epoch too many": (
        lambda run: run.epochs_file.write_bytes(run.epochs_file.read_bytes() + b"{}\n"),
        r"epochs\.jsonl has 7 of 6 epochs",
    ),
    "no weights": (lambda run: run.model_file.unlink(), r"there is no model\.safetensors"),
}


def test_a_whole_run(finished_folder):
    assert finished_summary(finished_folder) == finished_folder.summary()
    assert run_status(finished_folder.path.name, finished_folder.path.parent).state == "done"


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_run_is_damaged_for_every_reader(finished_folder, damage, message):
    without_checksums(finished_folder.path)
    damage(finished_folder)
    with pytest.raises(RecordError, match=message) as raised:
        finished_summary(finished_folder)
    now = run_status(finished_folder.path.name, finished_folder.path.parent)
    assert (now.state, now.problem) == ("damaged", str(raised.value))
    problems = []
    assert finished_records([finished_folder.path], problems.append) == []
    assert [(problem.kind, problem.path) for problem in problems] == [("damaged", finished_folder.path)]
    assert str(raised.value).endswith(problems[0].reason)


def test_own_data_need_no_test_part(finished_folder):
    def without_test_part(content):
        content["config"]["data"] = {}
        for end in ("chosen", "last"):
            content[end]["test_accuracy"] = None

    edit(finished_folder.summary_file, without_test_part)
    edit(finished_folder.config_file, lambda config: config.update(data={}))
    assert finished_summary(finished_folder)["last"]["test_accuracy"] is None


def test_own_data_need_a_validation_accuracy(finished_folder):
    edit(finished_folder.summary_file, lambda content: content["chosen"].update(validation_accuracy=None))
    edit(finished_folder.summary_file, lambda content: content["config"].update(data={}))
    edit(finished_folder.config_file, lambda config: config.update(data={}))
    with pytest.raises(RecordError, match=r"chosen\.validation_accuracy is None"):
        finished_summary(finished_folder)


# Permissions ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def locked_run(finished_folder, monkeypatch):
    """A run in a folder that may not be searched, also not by root."""
    shut_off(monkeypatch, finished_folder.path)
    return finished_folder


def shut_off(monkeypatch, folder, number=errno.EACCES):
    """Let system calls on whatever is below a folder fail."""

    def guarded(call):
        def called(path, *words, **options):
            if isinstance(path, str | os.PathLike) and folder in Path(path).parents:
                raise OSError(number, os.strerror(number), str(path))
            return call(path, *words, **options)

        return called

    for name in ("stat", "open", "scandir", "listdir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))


def test_a_run_that_hides_its_files_is_not_damaged(locked_run):
    (found,) = find_runs(locked_run.path.parent)
    assert found.path == locked_run.path
    for read in (found.summary, found.config, found.epochs, found.require_intact, lambda: finished_summary(found)):
        with pytest.raises(RecordError, match=r"json cannot be read \(Permission denied\)\. Check its perm") as raised:
            read()
        assert "remove" not in str(raised.value)
    assert (found.in_use, found.changed) == (False, 0)


def test_a_report_and_a_grid_name_a_run_that_hides_its_files(locked_run):
    problems = []
    assert finished_records([locked_run.path.parent], problems.append) == []
    assert ["cannot be read (Permission denied)" in problem.reason for problem in problems] == [True]
    now = run_status(locked_run.path.name, locked_run.path.parent)
    assert (now.state, "Check its permissions" in now.problem) == ("damaged", True)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, r"\(Permission denied\)\. Check its permissions\."),
        (errno.EIO, r"\(Input/output error\)\. Check the disk\."),
    ],
)
def test_a_file_that_cannot_be_read_is_not_damaged(finished_folder, monkeypatch, number, said):
    def failing(path):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("tnlpad.records.checksums.open_regular", failing)
    with pytest.raises(RecordError, match=rf"config\.json cannot be read {said}") as raised:
        finished_folder.config()
    assert "remove" not in str(raised.value)


def test_a_lock_that_cannot_be_opened_tells_nothing(folder, monkeypatch):
    folder.lock_file.touch()

    def failing(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("filelock.FileLock.acquire", failing)
    assert not folder.in_use
