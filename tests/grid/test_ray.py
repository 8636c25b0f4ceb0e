import errno
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from filelock import FileLock

from tests.runs.test_run import Stop, content, small, stop_after
from tests.time_limit import time_limit
from tnlpad.grid import cluster
from tnlpad.grid import ray as module
from tnlpad.grid.cluster import RayUnavailable
from tnlpad.grid.executors import Outcome
from tnlpad.grid.ray import (
    SCRIPT_MODULE,
    PackedRun,
    SendBack,
    execute_on_ray,
    load_script,
    main_script,
    pack,
    unpack,
)
from tnlpad.records.store import RecordError, RunFolder, RunInUse, find_runs
from tnlpad.runs.config import configure, from_json
from tnlpad.runs.run import run

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


def changed(packed, **content):
    """Underscores stand for the point of a file's name; None leaves it out."""
    given = {**packed.files, **{name.replace("_", "."): value for name, value in content.items()}}
    return replace(packed, files={name: value for name, value in given.items() if value is not None})


def test_a_run_arrives_as_it_was_made_less_its_checkpoint(made, here):
    made.checkpoint_file.write_bytes(b"left by a kill after the summary")
    packed = pack(made)
    assert "checkpoint.pt" not in packed.files
    made.checkpoint_file.unlink()
    unpack(packed, here)
    assert run(CONFIG, here.path.parent).path == here.path  # found finished
    assert content(here) == content(made)
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
    (here.path / ".summary.json.1.tnlpad.tmp").write_text("half")
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
    packed = PackedRun(files={**pack(made).files, name: b""})
    with pytest.raises(RecordError, match="not a valid name"):
        unpack(packed, here)
    assert not here.path.exists()


@pytest.mark.parametrize("name", ["config.json", "epochs.jsonl", "model.safetensors", "summary.json"])
def test_a_run_that_lacks_a_part_is_refused(made, here, name):
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


SECONDS = 240  # a start takes a few, a lost machine is noticed after some more


@pytest.fixture(autouse=True)
def _limit():
    with time_limit(SECONDS):
        yield


@pytest.fixture(scope="module")
def ray():
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'tnlpad[ray]'")


@pytest.fixture(scope="module")
def start(ray):
    """Starts Ray on this machine, given a folder for temporary files that is not shared with any other machine."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

    def started(scratch):
        first = {"num_cpus": 2, "num_gpus": 1, "env_vars": {"TMPDIR": str(scratch)}}
        return Cluster(initialize_head=True, head_node_args=first)

    return started


@pytest.fixture(scope="module")
def one_machine(start, tmp_path_factory):
    machine = start(tmp_path_factory.mktemp("scratch"))
    yield machine
    machine.shutdown()


@pytest.fixture
def on_ray(one_machine):
    """The executor on one machine of two cores and a GPU, at least by its own account."""
    return partial(execute_on_ray, address=one_machine.address, gpus_per_run=0)


# Jobs


def act(job):
    match job:
        case "raise":
            raise RuntimeError("no luck")
        case "os._exit":
            os._exit(3)
        case "return a function of its own":
            return lambda: None
        case "threads":
            return torch.get_num_threads()
    return job


def meet(folder):
    """Ends only if two are at it at the same time."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.05)
    return os.environ["CUDA_VISIBLE_DEVICES"]


def announce_and_sleep(path):
    with FileLock(path.with_suffix(".lock")):
        path.write_text(str(os.getpid()))
        time.sleep(3600)


class Training(NamedTuple):
    """A run that gets stuck after its first epoch on one machine, of which it leaves a note."""

    config: dict
    out: Path
    notes: Path
    stuck_on: str

    @property
    def folder(self):
        return self.out / from_json(self.config).run_id


def train(job):
    import ray

    here = ray.get_runtime_context().get_node_id()
    note = job.notes / f"{job.folder.name}.{here}"
    note.touch()

    def on_epoch(record):
        if here == job.stuck_on:
            note.write_text("stuck")
            time.sleep(3600)

    while True:
        try:
            return run(from_json(job.config), job.out, on_epoch=on_epoch).path.name
        except RunInUse:  # by a process of the lost machine, which is about to end
            time.sleep(0.1)


def folder(job):
    return job.folder


def moved(job, out):
    return job._replace(out=out)


# A machine is lost


@pytest.mark.ray
@pytest.mark.parametrize(
    "send_back",
    [
        pytest.param(None, id="shared folder", marks=pytest.mark.long),
        pytest.param(SendBack(folder=folder, moved=moved), id="sent back"),
    ],
)
def test_a_machine_killed_in_the_middle_of_a_grid(start, tmp_path, send_back):
    settings = {"epochs": 2, "batch_size": 256}
    configs = [configure("digits", noise="symmetric:0.4", seed=seed, settings=settings) for seed in range(8)]
    out, notes, first, second = (tmp_path / name for name in ("runs", "notes", "first", "second"))
    for path in (notes, first, second):
        path.mkdir()
    machines = start(first)
    try:
        doomed = machines.add_node(num_cpus=2, env_vars={"TMPDIR": str(second)})
        jobs = [Training(config.to_json(), out, notes, doomed.node_id) for config in configs]
        running = execute_on_ray(train, jobs, address=machines.address, gpus_per_run=0, send_back=send_back)
        with closing(running) as outcomes:
            ended = [next(outcomes)]
            while not (stuck := [note.stem for note in notes.glob(f"*.{doomed.node_id}") if note.read_text()]):
                time.sleep(0.05)
            machines.remove_node(doomed, allow_graceful=False)
            ended += outcomes
    finally:
        machines.shutdown()
    assert sorted(outcome.value for outcome in ended) == sorted(config.run_id for config in configs)
    assert {outcome.error for outcome in ended} == {None}
    for outcome in ended:
        # Others may have been lost on their way to the machine or at the start of their training.
        starts = len(list(notes.glob(f"{outcome.value}.*")))
        assert 1 <= starts <= outcome.attempts <= 2
        assert starts == 2 or outcome.value not in stuck
    # One whole record each, the same as without any of this.
    assert [found.path.name for found in find_runs(out)] == sorted(config.run_id for config in configs)
    for config in configs:
        assert content(RunFolder(out / config.run_id)) == content(run(config, tmp_path / "undisturbed"))
        assert not list((out / config.run_id).glob(".*"))
    # What was sent is not kept where it was made, and what was interrupted is still there.
    assert list(first.rglob("config.json")) == []
    interrupted = {path.parent.name for path in second.rglob("checkpoint.pt")}
    assert interrupted >= set(stuck) if send_back else not interrupted


# On one machine


@pytest.mark.ray
def test_jobs_that_fail_are_reported_and_the_others_go_on(on_ray):
    jobs = [1, "raise", "os._exit", "return a function of its own", "threads", 2]
    outcomes = {outcome.job: outcome for outcome in on_ray(act, jobs, retries=1)}
    assert outcomes.keys() == set(jobs)
    assert [outcomes[job].value for job in jobs] == [1, None, None, None, 1, 2]
    assert [outcomes[job].attempts for job in jobs] == [1, 1, 2, 1, 1, 1]
    assert outcomes["raise"].error == "RuntimeError: no luck"
    assert "in act" in outcomes["raise"].traceback
    assert "was lost (WorkerCrashedError); attempts: 2" in outcomes["os._exit"].error
    assert "pickle" in outcomes["return a function of its own"].error
    assert list(on_ray(act, [])) == []


@pytest.mark.ray
def test_a_job_has_one_thread_however_many_cores_it_is_given(on_ray):
    assert [outcome.value for outcome in on_ray(act, ["threads"], cpus_per_run=2)] == [1]


@pytest.mark.ray
def test_runs_share_a_gpu_by_fractions(on_ray, tmp_path):
    assert [outcome.value for outcome in on_ray(meet, [tmp_path, tmp_path], gpus_per_run=0.5)] == ["0", "0"]


@pytest.mark.ray
def test_a_job_that_fits_no_machine_is_refused(on_ray):
    with pytest.raises(RayUnavailable, match=r"2 GPUs and 1 CPUs.*1 GPUs and 2 CPUs\)"):
        next(on_ray(act, [1], gpus_per_run=2))


@pytest.mark.ray
def test_a_run_that_cannot_be_received_is_that_jobs_failure(on_ray, tmp_path):
    config = configure("digits", noise="symmetric:0.4", settings={"epochs": 1, "batch_size": 256})
    (tmp_path / "in the way").touch()
    jobs = [Training(config.to_json(), tmp_path / name, tmp_path, "") for name in ("runs", "in the way")]
    good, bad = on_ray(train, jobs, send_back=SendBack(folder=folder, moved=moved), cpus_per_run=2)
    assert (good.value, good.error) == (config.run_id, None)
    assert good.job.folder.joinpath("summary.json").exists()
    assert bad.value is None
    assert "in the way" in bad.error


@pytest.mark.ray
def test_where_the_driver_has_no_space_no_further_run_is_received(on_ray, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tnlpad.grid.ray.unpack", full)
    config = configure("digits", noise="symmetric:0.4", settings={"epochs": 1, "batch_size": 256})
    jobs = [Training(config.to_json(), tmp_path / "runs", tmp_path, "")]
    with pytest.raises(OSError, match="No space left"):
        list(on_ray(train, jobs, send_back=SendBack(folder=folder, moved=moved)))


@pytest.mark.ray
def test_closing_early_stops_the_jobs_and_leaves_a_connection_that_was_there(one_machine, on_ray, ray, tmp_path):
    jobs = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    ray.init(address=one_machine.address, log_to_driver=False)
    try:
        with closing(on_ray(announce_and_sleep, jobs, retries=0)) as outcomes, killed_when_there(jobs[0]):
            next(outcomes)
        assert ray.is_initialized()
        released(jobs)
    finally:
        ray.shutdown()


@pytest.mark.ray
def test_when_the_driver_is_killed_no_job_goes_on(one_machine, tmp_path):
    code = (
        "import sys, pathlib\nfrom tests.grid.test_ray import announce_and_sleep, execute_on_ray\n"
        "list(execute_on_ray(announce_and_sleep, [pathlib.Path(sys.argv[2])], address=sys.argv[1], gpus_per_run=0))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    job = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", code, one_machine.address, job], env=environment) as driver:
        while not job.exists():
            time.sleep(0.05)
        driver.kill()
    assert driver.returncode == -signal.SIGKILL
    released([job])


def killed_when_there(path):
    """Another process, to kill the one that leaves its number in this file."""
    code = f"import os, time, pathlib; p = pathlib.Path({str(path)!r})\n"
    code += "while not (p.exists() and p.read_text()): time.sleep(0.05)\nos.kill(int(p.read_text()), 9)"
    return subprocess.Popen([sys.executable, "-c", code])


def released(jobs):
    for job in jobs:
        with FileLock(job.with_suffix(".lock"), timeout=60):  # held for an hour by whoever goes on
            pass


# Under a Ray of our own, which does as it is told


class FakeRay:
    """As much of Ray as the executor uses; `failures` are raised one after the other in place of answers."""

    class exceptions:
        RayError = type("RayError", (Exception,), {})
        WorkerCrashedError = type("WorkerCrashedError", (RayError,), {})
        NodeDiedError = type("NodeDiedError", (RayError,), {})
        OutOfMemoryError = type("OutOfMemoryError", (RayError,), {})
        ObjectLostError = type("ObjectLostError", (RayError,), {})

    def __init__(self, failures=(), refuses=None):
        self.failures, self.refuses = list(failures), refuses
        self.connected, self.told, self.tasks = False, [], {}
        self.machines = [{"Alive": True, "Resources": {"CPU": 2.0}}]

    def is_initialized(self):
        return self.connected

    def init(self, **options):
        self.told.append(options)
        if self.refuses is not None:
            raise self.refuses
        self.connected = True

    def shutdown(self):
        self.connected = False

    def nodes(self):
        return self.machines

    def remote(self, **options):
        self.told.append(options)
        return lambda function: SimpleNamespace(remote=partial(self._start, function))

    def _start(self, function, *arguments):
        self.tasks[len(self.tasks)] = (function, arguments)
        return len(self.tasks) - 1

    def wait(self, references, **_):
        return references[:1], references[1:]

    def get(self, reference):
        if self.failures:
            raise self.failures.pop(0)
        function, arguments = self.tasks[reference]
        return function(*arguments)

    def cancel(self, reference, *, force):
        self.told.append(("cancelled", reference, force))


@pytest.fixture
def fake(monkeypatch):
    """Makes one that is used in place of Ray."""

    def made(**options):
        ray = FakeRay(**options)
        monkeypatch.setattr(module, "import_ray", lambda: ray)
        return ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return made


def test_a_cluster_is_joined_quietly_and_left_again(fake, monkeypatch):
    ray = fake()
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with closing(execute_on_ray(act, [1, 2], address=None, gpus_per_run=0)) as outcomes:
        assert next(outcomes).value == 1
        assert ray.connected
    assert not ray.connected
    joined, task, cancelled = ray.told
    # What jobs print would be mixed with results; Ray would try again itself and not say how often.
    assert joined == {
        "address": "auto",
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    assert task == {"num_gpus": 0, "num_cpus": 1, "max_retries": 0}
    assert cancelled == ("cancelled", 1, True)


@pytest.mark.parametrize("error", [RuntimeError("another version"), ValueError("no such thing"), ConnectionError("no")])
def test_a_cluster_that_cannot_be_joined_is_named(fake, error):
    fake(refuses=error)
    message = rf"No Ray cluster at this machine \({error}\).*ray start --head"
    with pytest.raises(RayUnavailable, match=message):
        next(execute_on_ray(act, [1], address=None, gpus_per_run=0))


@pytest.mark.parametrize("name", ["WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError"])
def test_what_is_lost_on_the_way_is_started_again(fake, name):
    lost = getattr(FakeRay.exceptions, name)
    fake(failures=[lost()])
    [outcome] = execute_on_ray(act, [1], address=None, gpus_per_run=0)
    assert (outcome.value, outcome.attempts) == (1, 2)
    fake(failures=[lost(), lost()])
    [outcome] = execute_on_ray(act, [1], address=None, gpus_per_run=0, retries=1)
    assert outcome.error == f"The job's process was lost ({name}); attempts: 2."


def test_what_ray_itself_cannot_do_is_a_failure_of_that_job_alone(fake):
    fake(failures=[FakeRay.exceptions.RayError("no module named tnlpad")])
    bad, good = execute_on_ray(act, [1, 2], address=None, gpus_per_run=0)
    assert (bad.value, bad.attempts) == (None, 1)
    assert "no module named tnlpad" in bad.error
    assert good.value == 2


def test_a_machine_that_is_gone_has_no_room(fake):
    ray = fake()
    ray.machines.append({"Alive": False, "Resources": {"CPU": 8.0, "GPU": 1.0}})
    with pytest.raises(RayUnavailable, match=r"1 GPUs and 1 CPUs, but no machine .*\(0 GPUs and 2 CPUs\)"):
        next(execute_on_ray(act, [1], address=None, gpus_per_run=1))
    assert not ray.connected


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.1:6379", ("10.0.0.1", 6379)),
        ("[::1]:6379", ("::1", 6379)),
        ("ray://head:10001", ("head", 10001)),
        ("auto", None),
        (None, None),
    ],
)
def test_who_is_asked_whether_anybody_listens(monkeypatch, address, place):
    asked = []

    def connect(place, seconds):
        asked.append(place)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(socket, "create_connection", connect)
    cluster._check_reachable(address)
    assert asked == ([] if place is None else [place])


# Where runs are made that are sent back


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"tnlpad-{os.getuid()}"


def test_the_folder_is_nobody_else_s(scratch, monkeypatch):
    assert module._temporary_folder() == module._temporary_folder() == scratch
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match=r"tnlpad-4711 belongs to another user. Set TMPDIR"):
        module._temporary_folder()


def test_a_run_that_does_not_end_is_left_for_the_next_attempt(scratch, tmp_path):
    config = configure("digits", noise="symmetric:0.4")
    job = Training(config.to_json(), tmp_path / "runs", tmp_path, "")

    def begin(job):
        RunFolder(job.folder).begin(job.config)
        return "diverged"

    sent = module._make_and_pack(begin, SendBack(folder=folder, moved=moved), job)
    assert sent == ("diverged", None)
    assert RunFolder(scratch / config.run_id).begun
    assert not job.folder.exists()


def test_closing_closes_what_it_receives_from():
    closed = []

    def sending():
        try:
            yield Outcome(job=1, value=(2, None), error=None, attempts=1)
        finally:
            closed.append(True)

    held = sending()
    with closing(module._received(held, SendBack(folder=folder, moved=moved))) as outcomes:
        assert next(outcomes).value == 2
    assert closed == [True]


# Without a cluster


def test_nothing_is_told_to_ray_s_makers_unless_wanted(ray, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    assert (cluster.import_ray(), os.environ["RAY_USAGE_STATS_ENABLED"]) == (ray, "1")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    cluster.import_ray()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_nobody_at_the_address(ray):
    with pytest.raises(RayUnavailable, match=r"No Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        next(execute_on_ray(act, [1], address="127.0.0.1:1", gpus_per_run=0))


def test_without_ray_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayUnavailable, match=r"pip install 'tnlpad\[ray\]'"):
        execute_on_ray(act, [1], address=None, gpus_per_run=0)


@pytest.mark.parametrize("name", ["gpus_per_run", "cpus_per_run", "retries"])
def test_numbers_below_zero_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=-1: must be at least 0"):
        execute_on_ray(act, [1], **{"address": None, "gpus_per_run": 0, name: -1})


# A script in place of the command


def test_a_script_is_loaded_once_and_not_as_the_main_module(monkeypatch):
    monkeypatch.delitem(sys.modules, SCRIPT_MODULE, raising=False)
    names = []
    monkeypatch.setattr("builtins.names_of_scripts", names, raising=False)
    source = "names_of_scripts.append(__name__)\nif __name__ == '__main__':\n    raise SystemExit(1)\n"
    for _ in range(2):
        load_script(("own.py", source))
    assert names == [SCRIPT_MODULE]
    load_script(("own.py", source + "# changed\n"))
    assert len(names) == 2
    with pytest.raises(ZeroDivisionError):
        load_script(("own.py", "1 / 0"))
    assert SCRIPT_MODULE not in sys.modules
    load_script(None)


def test_only_a_python_file_is_sent(tmp_path, monkeypatch):
    file = tmp_path / "own.py"
    file.write_text("x = 1\n")
    main = ModuleType("__main__")
    main.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert main_script() == (str(file), "x = 1\n")
    main.__file__ = "/usr/bin/tnlpad"
    assert main_script() is None
    main.__file__, main.__spec__ = str(file), SimpleNamespace(name="tnlpad.__main__")
    assert main_script() is None
