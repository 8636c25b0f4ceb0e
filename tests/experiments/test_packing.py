import subprocess

import pytest

from tnlpad.experiments import packing
from tnlpad.experiments.config import configure
from tnlpad.experiments.packing import runs_at_once


def configs(*datasets, seeds=40):
    return [configure(name, noise="symmetric:0.4", seed=seed) for name in datasets for seed in range(1, seeds + 1)]


@pytest.fixture
def machine(monkeypatch):
    """A machine with a GPU; call it to say how large it is."""

    def has(*, free, cores=16, mps=True):
        def answer(command, **_):
            if free is None:
                raise FileNotFoundError(command[0])
            return subprocess.CompletedProcess(command, 0, "".join(f"{each * 1024}\n" for each in free), "")

        monkeypatch.setattr(packing.subprocess, "run", answer)
        monkeypatch.setattr(packing.shutil, "which", lambda name: f"/usr/bin/{name}" if mps else None)
        monkeypatch.setattr(packing, "available_cores", lambda: cores)

    return has


@pytest.mark.parametrize(
    ("gpu", "datasets", "expected"),
    [
        ({"free": [139]}, ["mnist"], 20),
        ({"free": [139]}, ["cifar10"], 9),
        ({"free": [139]}, ["mnist", "cifar10"], 9),  # the largest network decides
        ({"free": [139], "cores": 4}, ["mnist"], 5),
        ({"free": [24]}, ["cifar10"], 4),
        ({"free": [23.5]}, ["cifar10"], 3),
        ({"free": [24]}, ["mnist", "cifar10"], 4),
        ({"free": [8, 24]}, ["cifar10"], 4),
        ({"free": [139]}, ["food101"], 5),
        ({"free": [3]}, ["cifar10"], 1),
        ({"free": [139], "mps": False}, ["mnist"], 1),
        ({"free": None}, ["mnist"], 1),
    ],
)
def test_as_many_as_fill_the_gpu_and_fit(machine, gpu, datasets, expected):
    machine(**gpu)
    assert runs_at_once(configs(*datasets)) == expected


@pytest.mark.parametrize("said", ["[N/A]\n", "", subprocess.CalledProcessError(9, "nvidia-smi")])
def test_a_gpu_that_does_not_say_what_is_free_is_not_shared(machine, monkeypatch, said):
    def answer(command, *, check, **_):
        if isinstance(said, Exception):
            assert check
            raise said
        return subprocess.CompletedProcess(command, 0, said, "")

    machine(free=[139])
    monkeypatch.setattr(packing.subprocess, "run", answer)
    assert runs_at_once(configs("mnist")) == 1


def test_never_more_than_there_are(machine):
    machine(free=[139])
    assert runs_at_once(configs("mnist", seeds=3)) == 3
    assert runs_at_once([]) == 1
