import os
import shutil
from dataclasses import replace

import pytest

from tests.experiments.test_run import Stop, content, small, stop_after
from tnlpad.experiments.parcel import Parcel, pack, unpack
from tnlpad.experiments.run import checked, run
from tnlpad.records.store import RecordError, RunFolder, RunInUse

CONFIG = small()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run on another machine."""
    return run(CONFIG, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def here(tmp_path):
    return RunFolder(tmp_path / "runs" / CONFIG.run_id)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


def changed(parcel, **content):
    """Underscores stand for the point of a file's name; None leaves it out."""
    given = {**parcel.files, **{name.replace("_", "."): value for name, value in content.items()}}
    return replace(parcel, files={name: value for name, value in given.items() if value is not None})


def test_a_run_arrives_as_it_was_made_less_its_checkpoint(made, here):
    made.checkpoint_file.write_bytes(b"left by a kill after the summary")
    parcel = pack(made)
    assert "checkpoint.pt" not in parcel.files
    made.checkpoint_file.unlink()
    unpack(parcel, here)
    assert content(checked(here, CONFIG)) == content(made)
    assert files(here).keys() == files(made).keys() | {"lock"}


def test_what_is_not_finished_is_not_sent(tmp_path):
    with pytest.raises(Stop):
        run(CONFIG, tmp_path, on_epoch=stop_after(2))
    assert pack(RunFolder(tmp_path / CONFIG.run_id)) is None
    assert pack(RunFolder(tmp_path / "nothing")) is None


def test_of_a_run_made_twice_the_first_to_arrive_stays(made, here):
    unpack(pack(made), here)
    before = files(here)
    second = changed(pack(made), epochs_jsonl=b"", model_safetensors=b"other")
    unpack(second, here)
    assert files(here) == before


def test_what_an_unfinished_run_left_is_replaced(made, here):
    with pytest.raises(Stop):
        run(CONFIG, here.path.parent, on_epoch=stop_after(2))
    (here.path / ".summary.json.1.tmp").write_text("half")
    unpack(pack(made), here)
    assert content(here) == content(made)
    assert not here.checkpoint_file.exists()
    assert not list(here.path.glob(".*"))


def test_a_run_that_someone_is_at_is_left_to_them(made, here):
    with here.lock(), pytest.raises(RunInUse):
        unpack(pack(made), here)
    assert not here.begun


@pytest.mark.parametrize("moment", range(1, 5))
def test_stopped_at_any_write_it_is_not_finished_and_can_be_made_or_received_again(made, here, monkeypatch, moment):
    with pytest.raises(Stop):
        run(CONFIG, here.path.parent, on_epoch=stop_after(2))
    replace_file, calls = os.replace, []

    def full(source, target):
        calls.append(target)
        if len(calls) == moment:
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            unpack(pack(made), here)
    assert not here.finished
    other = RunFolder(shutil.copytree(here.path.parent, here.path.parents[1] / "copy") / CONFIG.run_id)
    unpack(pack(made), here)
    assert content(here) == content(made)
    assert content(run(CONFIG, other.path.parent)) == content(made)


def test_folders_within_are_sent_as_well(tmp_path, here):
    made = run(CONFIG, tmp_path / "elsewhere")
    events = made.path / "tensorboard" / "events"
    events.parent.mkdir()
    events.write_bytes(b"scalars")
    (made.path / "tensorboard" / ".half.tmp").write_bytes(b"scal")
    here.keep_error("of an earlier attempt")
    unpack(pack(made), here)
    assert content(here) == content(made)
    assert [path.name for path in (here.path / "tensorboard").iterdir()] == ["events"]
    assert (here.path / "tensorboard" / "events").read_bytes() == b"scalars"
    assert not here.error_file.exists()


NAMES = [
    "../config.json",
    "/etc/passwd",
    "a/../b",
    "a/.hidden",
    ".hidden/a",
    "a//b",
    "./a",
    ".",
    "..",
    "/",
    ".hidden",
    "",
    "lock",
    "checkpoint.pt",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(made, here, name):
    parcel = Parcel(files={**pack(made).files, name: b""})
    with pytest.raises(RecordError, match="no name for a record"):
        unpack(parcel, here)
    assert not here.path.exists()


@pytest.mark.parametrize("name", ["config.json", "epochs.jsonl", "model.safetensors", "summary.json"])
def test_a_parcel_that_lacks_a_part_is_refused(made, here, name):
    with pytest.raises(RecordError, match=f"without its {name}"):
        unpack(changed(pack(made), **{name: None}), here)
    assert not here.path.exists()


def test_another_run_is_refused(made, here, tmp_path):
    with pytest.raises(RecordError, match=r"was sent where .* was expected"):
        unpack(pack(made), RunFolder(tmp_path / "another"))
    here.begin(small(epochs=4).to_json())
    with pytest.raises(RecordError, match="describes another run"):
        unpack(pack(made), here)
    assert not here.finished
