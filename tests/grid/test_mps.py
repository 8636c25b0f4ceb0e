import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.time_limit import time_limit
from tnlpad.grid import mps as packing
from tnlpad.grid.mps import PROCESSORS_SHARE, AtOnce, kind_of, mps, runs_at_once, share_environment, share_of
from tnlpad.runs.config import configure

PLACES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
# Stands in for NVIDIA's program: a daemon is a file in its folder, and everything asked of it is noted.
FAKE = """#!/bin/sh
daemon="${CUDA_MPS_PIPE_DIRECTORY:-$DEFAULT}/daemon"
if [ "$1" = -d ]; then
    echo "start $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" >> "$NOTES"
    [ -z "$BROKEN" ] || { echo "$BROKEN" >&2; exit 1; }
    touch "$daemon"
    exit
fi
read -r asked
echo "$asked" >> "$NOTES"
[ -e "$daemon" ] || exit 1
"""


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(60):
        yield


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Where the fake program notes what it is asked; it is on the PATH."""
    for name in ("bin", "default", "temporary"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program.write_text(FAKE)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("DEFAULT", str(tmp_path / "default"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "notes"


def test_a_daemon_of_our_own_for_the_length_of_the_block(notes, tmp_path):
    said = []
    with mps("cuda", say=said.append):
        inherited = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
        [folder] = (tmp_path / "temporary").iterdir()
        assert all(f"{name}={folder}\n" in inherited for name in PLACES)
        assert (folder / "daemon").exists()
    assert notes.read_text().splitlines() == ["get_server_list", f"start {folder} {folder}", "quit -t 5"]
    assert said == ["MPS is started, and runs that share a GPU use it."]
    assert not any(name in os.environ for name in PLACES)
    assert not folder.exists()


def test_whether_processes_share_the_gpu_is_known(notes, tmp_path, monkeypatch):
    with mps("cuda", say=print) as shared:
        assert shared
    (tmp_path / "default" / "daemon").touch()  # runs already
    with mps("cuda", say=print) as shared:
        assert shared
    (tmp_path / "default" / "daemon").unlink()
    monkeypatch.setenv("BROKEN", "not permitted")
    with mps("cuda", say=print) as shared:
        assert not shared
    with mps("cpu", say=print) as shared:
        assert not shared


def test_runs_get_a_share_unless_the_user_has_set_it(monkeypatch):
    monkeypatch.delenv(PROCESSORS_SHARE, raising=False)
    assert share_environment(9) == {PROCESSORS_SHARE: "30"}
    monkeypatch.setenv(PROCESSORS_SHARE, "100")
    assert share_environment(9) == {}


@pytest.mark.parametrize(
    ("visible", "inherited"), [("2", "0"), ("3,1", "0,1"), ("GPU-5,GPU-6", "GPU-5,GPU-6"), ("", ""), (None, None)]
)
def test_a_daemon_that_was_given_some_gpus_numbers_them_anew(notes, monkeypatch, visible, inherited):
    """The daemon applies its own CUDA_VISIBLE_DEVICES, and clients number what it shows: 2 would be no device."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with mps("cuda", say=print):
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == inherited
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible


def test_a_daemon_of_someone_else_keeps_the_numbers_of_gpus(notes, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    (tmp_path / "default" / "daemon").touch()
    with mps("cuda", say=print):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"


def test_a_daemon_that_does_not_stop_holds_nothing_up(notes, monkeypatch):
    monkeypatch.setattr(packing, "STOP_AT_END", "sleep 5")
    monkeypatch.setattr(packing, "COMMAND_TIMEOUT_SECONDS", 0.2)
    began = time.monotonic()
    with packing._stopped_at_end(Path("/nowhere"), {}):
        pass
    assert time.monotonic() - began < 4


def test_shares_overlap_and_small_ones_are_not_given():
    assert [share_of(runs) for runs in (1, 2, 3, 6, 9, 12, 13, 14, 20)] == [100, 100, 90, 45, 30, 22, 20, 100, 100]


def test_what_the_environment_said_is_put_back(notes, tmp_path, monkeypatch):
    monkeypatch.setenv(PLACES[0], str(tmp_path / "elsewhere"))

    def fail():
        with mps("cuda:1", say=lambda line: None):
            raise KeyError(os.environ[PLACES[0]])

    with pytest.raises(KeyError) as during:
        fail()
    assert "temporary" in during.value.args[0]
    assert os.environ[PLACES[0]] == str(tmp_path / "elsewhere")


def test_a_daemon_of_someone_else_is_used_and_left_alone(notes, tmp_path):
    (tmp_path / "default" / "daemon").touch()
    said = []
    with mps("cuda", say=said.append):
        assert not any(name in os.environ for name in PLACES)
    assert ["already running" in line for line in said] == [True]
    assert notes.read_text().splitlines() == ["get_server_list"]


def test_a_daemon_that_does_not_start_is_done_without(notes, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKEN", "not permitted")
    said = []
    with mps("cuda", say=said.append):
        assert not any(name in os.environ for name in PLACES)
    assert len(said) == 1
    assert "failed (not permitted)" in said[0]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("device", "path", "reason"), [("cpu", None, "the device is cpu"), ("cuda", "/nowhere", "not installed")]
)
def test_where_it_makes_no_sense_nothing_is_done(notes, monkeypatch, device, path, reason):
    if path:
        monkeypatch.setenv("PATH", path)
    said = []
    with mps(device, say=said.append):
        assert not any(name in os.environ for name in PLACES)
    assert len(said) == 1
    assert reason in said[0]
    assert not notes.exists()


def test_when_the_driver_is_killed_the_daemon_ends(notes):
    code = "import os, signal\nfrom tnlpad.grid.mps import mps\n"
    code += "with mps('cuda', say=lambda line: None): os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    folder = Path(notes.read_text().splitlines()[1].split()[1])
    while folder.exists():
        time.sleep(0.01)
    assert notes.read_text().splitlines()[-1] == "quit -t 5"


def configs(*datasets, seeds=40):
    return [configure(name, noise="symmetric:0.4", seed=seed) for name in datasets for seed in range(1, seeds + 1)]


@pytest.fixture
def machine(monkeypatch):
    """A machine with a GPU; call it to say how large it is."""

    def has(*, free, cores=16, mps=True):
        def answer(command, **_):
            if free is None:
                raise FileNotFoundError(command[0])
            gpu = command[command.index("-i") + 1]
            return subprocess.CompletedProcess(command, 0, f"{free[gpu] * 1024}\n", "")

        monkeypatch.setattr(packing.subprocess, "run", answer)
        monkeypatch.setattr(packing.shutil, "which", lambda name: f"/usr/bin/{name}" if mps else None)
        monkeypatch.setattr(packing, "available_cores", lambda: cores)

    return has


def found(configs, device="cuda"):
    """Start and most by dataset."""
    return {kind[0]: (each.start, each.most) for kind, each in runs_at_once(configs, device).items()}


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ({"free": {"0": 139}}, {"mnist": (20, 20)}),
        ({"free": {"0": 139}}, {"cifar10": (9, 20), "cifar100": (6, 20), "fashion_mnist": (12, 20)}),
        ({"free": {"0": 139}}, {"mnist": (20, 20), "cifar10": (9, 20)}),
        ({"free": {"0": 139}, "cores": 4}, {"mnist": (5, 5)}),
        ({"free": {"0": 24}}, {"cifar10": (4, 4)}),
        ({"free": {"0": 23.5}}, {"cifar10": (3, 3)}),
        ({"free": {"0": 24}}, {"mnist": (12, 12), "cifar10": (4, 4)}),
        ({"free": {"0": 139}}, {"food101": (5, 5)}),
        ({"free": {"0": 3}}, {"cifar10": (1, 1)}),
        ({"free": {"0": 139}, "mps": False}, {"mnist": (1, 1)}),
        ({"free": None}, {"mnist": (1, 1)}),
    ],
)
def test_as_many_of_each_kind_as_fill_the_gpu_and_fit(machine, gpu, expected):
    machine(**gpu)
    assert found(configs(*expected)) == expected


def test_kinds_are_networks_on_a_dataset(machine):
    machine(free={"0": 139})
    other = configure("cifar10", noise="symmetric:0.2", method="coteaching", seed=9)
    first = configs("cifar10", seeds=1)[0]
    assert len(runs_at_once([first, other], "cuda")) == 1
    vgg = configure("cifar10", noise="symmetric:0.4", network="vgg19")
    assert runs_at_once([first, vgg], "cuda")[kind_of(vgg.to_json())] == AtOnce(start=2, most=2)


def test_own_data_begin_with_the_number_of_a_network_that_was_not_measured(machine):
    machine(free={"0": 139})
    own = [replace(each, dataset="own") for each in configs("digits", "cifar10")]
    assert [each.start for each in runs_at_once(own, "cuda").values()] == [20, 9]


@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [("cuda", None, 1), ("cuda:1", None, 4), ("cuda", "1", 4), ("cuda:1", "GPU-5, 0", 1), ("cuda", "GPU-5,0", 2)],
)
def test_the_memory_is_that_of_the_gpu_of_the_runs(machine, monkeypatch, device, visible, expected):
    machine(free={"0": 8, "1": 24, "GPU-5": 12})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert found(configs("cifar10"), device) == {"cifar10": (expected, expected)}


@pytest.mark.parametrize("said", ["[N/A]\n", "", subprocess.CalledProcessError(9, "nvidia-smi")])
def test_a_gpu_that_does_not_say_what_is_free_is_not_shared(machine, monkeypatch, said):
    def answer(command, *, check, **_):
        if isinstance(said, Exception):
            assert check
            raise said
        return subprocess.CompletedProcess(command, 0, said, "")

    machine(free={"0": 139})
    monkeypatch.setattr(packing.subprocess, "run", answer)
    assert found(configs("mnist")) == {"mnist": (1, 1)}


def test_never_more_than_there_are(machine):
    machine(free={"0": 139})
    assert found(configs("mnist", seeds=3)) == {"mnist": (3, 3)}
    assert found([]) == {}
