"""The soak finds what it looks for, and its attacks can be repeated."""

import errno
import os
import signal
import sys
import time

import numpy as np
import pytest

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.children import in_children
from benchmarks.faults.commands import Ended, end_of, forked
from benchmarks.faults.errors import brief, is_ours
from benchmarks.faults.file_operations import FileOperations, disk_full, send
from benchmarks.faults.inputs import KINDS, Kind
from benchmarks.faults.kills import wrong_end
from benchmarks.faults.mangle import INSIDE, mangled
from benchmarks.faults.mangled import Mangled
from benchmarks.soak import PARTS, SHARES, repeat_command
from tnlpad.atomic_files import write_by_rename
from tnlpad.data.own import open_dataset
from tnlpad.errors import DataError
from tnlpad.training import checkpoint  # noqa: F401  imported here, since every child would import torch otherwise

TRAINED = {"decisions", "archived record", *(name for name in KINDS if name.startswith("run "))}  # take seconds


def case(number=7, kind="csv", part="mangled"):
    return Case(part=part, kind=kind, number=number)


def test_a_name_repeats_a_case():
    assert Case.named(str(case())) == case()
    assert case().draw(1).random() == Case.named("mangled:csv:7").draw(1).random()
    assert len({case(number).draw(seed).random() for number in range(3) for seed in range(3)}) == 9
    assert repeat_command(case(), 3) == 'python -m benchmarks.soak --seed 3 --repeat "mangled:csv:7"'
    assert SHARES.keys() == PARTS.keys()


@pytest.mark.parametrize("kind", [name for name in KINDS if name not in TRAINED])
def test_every_sample_is_read_and_damage_can_be_repeated(tmp_path, kind):
    KINDS[kind].write(tmp_path)
    KINDS[kind].read(tmp_path)
    contents = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name, content in contents.items():
        changed = [mangled(name, content, case(number).draw(1)) for number in range(12)]
        assert changed == [mangled(name, content, case(number).draw(1)) for number in range(12)]
        assert sum(each != content for each in changed) >= 6


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("predictions", {"probabilities.csv", "labels.txt"}),
        ("review", {"review.csv", "turned.csv"}),
        ("hugging face parts", {"dataset_dict.json", "state.json"}),
    ],
)
def test_every_form_of_an_input_is_damaged(tmp_path, kind, files):
    KINDS[kind].write(tmp_path)
    assert files <= {path.name for path in tmp_path.rglob("*")}


def test_archives_are_also_damaged_inside():
    assert {".npz", ".xlsx", ".tar", ".gz", ".json", ".jsonl", ".npy", ".safetensors"} <= INSIDE.keys()


def test_damage_within_an_archive_does_not_depend_on_the_clock(tmp_path, monkeypatch):
    packed = tmp_path / "x.npz"
    np.savez(packed, images=np.arange(9), labels=np.arange(9))
    before = [mangled(packed.name, packed.read_bytes(), case(number).draw(1)) for number in range(30)]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1000)
    assert [mangled(packed.name, packed.read_bytes(), case(number).draw(1)) for number in range(30)] == before


def test_foreign_errors_and_deaths_are_found(tmp_path, monkeypatch):
    def read(folder):
        content = (folder / "x").read_bytes()
        if b"a" not in content:
            raise DataError("refused")
        if len(content) > 30:
            os.kill(os.getpid(), signal.SIGKILL)
        if b"c" not in content:
            raise KeyError("foreign")

    sample = Kind(write=lambda folder: (folder / "x").write_bytes(b"abcd"), read=read)
    monkeypatch.setitem(KINDS, "made up", sample)
    found = Mangled(tmp_path, seed=1).attack([case(number, "made up") for number in range(60)])
    kinds = {each.kind for each in found}
    assert any(kind.startswith("KeyError at") for kind in kinds)
    assert "made up: killed by SIGKILL" in kinds
    (again,) = Mangled(tmp_path, seed=1).attack([found[0].case])
    assert again == found[0]


def test_files_of_runs_are_also_removed_and_replaced(tmp_path, monkeypatch):
    found = set()

    def read(folder):
        for path in (folder / "x", folder / "y"):
            kinds = ("is_symlink", "is_fifo", "is_dir", "is_file")
            found.add(next((kind for kind in kinds if getattr(path, kind)()), "gone"))

    def write(folder):
        (folder / "x").write_bytes(b"ab")
        (folder / "y").write_bytes(b"cd")

    monkeypatch.setattr("benchmarks.faults.mangled.in_children", lambda cases, attack: list(map(attack, cases)))
    monkeypatch.setitem(KINDS, "made up", Kind(write=write, read=read, replaced=True))
    Mangled(tmp_path, seed=1).attack([case(number, "made up") for number in range(200)])
    assert found == {"gone", "is_file", "is_dir", "is_fifo", "is_symlink"}
    assert all(kind.replaced == name.startswith("run ") for name, kind in KINDS.items() if name != "made up")


def test_a_child_that_takes_too_long_fails_its_case_alone(monkeypatch):
    monkeypatch.setattr("benchmarks.faults.children.SECONDS_PER_CASE", 0.3)
    found = in_children(
        [case(number) for number in range(3)], lambda each: signal.pause() if each.number == 1 else None
    )
    assert found == [Failure(case=case(1), kind="csv: took more than 0.3 seconds", detail="")]


def test_errors_of_the_project_are_told_from_others(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(DataError) as ours:
        open_dataset(tmp_path / "x.npz")
    assert is_ours(ours.value)
    with pytest.raises(ValueError, match="invalid literal") as foreign:
        int("x")
    assert not is_ours(foreign.value)
    assert brief(foreign.value) == "ValueError at outside"


def test_libraries_below_a_checkout_of_the_same_name_are_not_the_project(tmp_path):
    library = tmp_path / "tnlpad" / ".venv" / "library.py"
    library.parent.mkdir(parents=True)
    library.write_text("def parse():\n    raise ValueError('foreign')\n")
    found = {}
    exec(compile(library.read_text(), library, "exec"), found)
    with pytest.raises(ValueError, match="foreign") as raised:
        found["parse"]()
    assert not is_ours(raised.value)
    assert brief(raised.value) == "ValueError at outside"


def test_numbers_go_beyond_every_type():
    numbers = {len(mangled("x", b"7", case(number).draw(1))) for number in range(2000)}
    assert {25, 400, 5000} <= numbers


def operated(folder, at, act, **options):
    """Write two files in a child with a fault; return its exit code."""
    child = os.fork()
    if not child:
        try:
            operations = FileOperations(folder, at, act, **options)
            operations.install()
            for name in "ab":
                write_by_rename(folder / name, b"0123456789")
            os._exit(operations.count)
        except OSError as error:
            os._exit(100 + error.errno)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_dies_at_every_file_operation(tmp_path):
    count = operated(tmp_path / "counted", 0, lambda: None) if not (tmp_path / "counted").mkdir() else 0
    assert count >= 10  # create, open, write, fsync and rename, twice
    seen = set()
    for at in range(1, count + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        assert operated(folder, at, send(signal.SIGKILL), halves=True) == -signal.SIGKILL
        files = {each.name: each.read_bytes() for each in folder.iterdir()}
        assert all(files.get(name, b"0123456789") == b"0123456789" for name in "ab")
        seen.add(tuple(sorted(content for name, content in files.items() if name.endswith(".tmp"))))
        write_by_rename(folder / "b", b"later")
        assert {each.name for each in folder.iterdir()} <= {"a", "b"}
    assert {(), (b"",), (b"01234",), (b"0123456789",)} <= seen


def test_a_full_disk_stays_full(tmp_path):
    assert operated(tmp_path, 3, disk_full, lasting=True) == 100 + errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "errors", "number", "wrong"),
    [
        (-9, "", signal.SIGKILL, None),
        (130, "Interrupted.\n", signal.SIGINT, None),
        (130, "", signal.SIGINT, "ends it with 130"),
        (1, "Error: x\n", signal.SIGINT, "ends it with 1"),
        (1, 'Traceback (most recent call last):\n  File "x", line 1, in main\n', signal.SIGINT, "traceback"),
        (None, "", signal.SIGTERM, "hangs"),
    ],
)
def test_wrong_ends_are_noticed(code, errors, number, wrong):
    found = wrong_end(Ended(code=code, errors=errors), number, "now")
    assert found is None if wrong is None else wrong in found[0]


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_a_short_soak_breaks_no_promise(tmp_path, part, monkeypatch):
    monkeypatch.setenv("TNLPAD_CACHE", str(tmp_path / "cache"))
    attacks = PARTS[part](tmp_path, 1)
    for kind in attacks.kinds[:2]:
        assert attacks.attack([case(number, kind, part) for number in range(3)]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_may_come_before_the_first_line_of_a_command(tmp_path, number):
    for _ in range(20):
        child = forked(["--version"], tmp_path, tmp_path / "errors")
        os.killpg(child, number)
        ended = end_of(child, tmp_path / "errors")
        assert wrong_end(ended, number, "at once") is None, ended


def test_commands_do_not_inherit_handlers_of_signals(tmp_path):
    """Ray, for one, lets SIGTERM raise SystemExit(15) in a process that has used it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
    try:
        child = forked(["--version"], tmp_path, tmp_path / "errors", lambda: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert end_of(child, tmp_path / "errors").code == -signal.SIGTERM
