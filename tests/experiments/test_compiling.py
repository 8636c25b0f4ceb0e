import threading

import pytest
import torch
from torch._inductor import config as inductor

from tnlpad.experiments import compiling as module
from tnlpad.experiments.compiling import compiling
from tnlpad.experiments.config import configure
from tnlpad.experiments.executors import available_cores


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """As in a process that has compiled nothing, with a cache of its own."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "not yet"))
    monkeypatch.setattr(module, "_compiled_for", ())
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(1))
    return resets


def digits(seed=1, **settings):
    return configure("digits", noise="symmetric:0.4", seed=seed, settings={"compiled": True, **settings})


def test_a_run_of_the_same_kind_takes_the_code_over_and_another_one_starts_anew(alone):
    with compiling(digits()):
        pass
    before = len(alone)
    with compiling(digits(seed=2)):
        pass
    with compiling(digits(compiled=False)):  # compiles nothing, and takes nothing away
        pass
    with compiling(digits(seed=3)):
        pass
    assert len(alone) == before
    with compiling(digits(batch_size=16)):
        pass
    assert len(alone) == before + 1


@inductor.patch(compile_threads=1)
def test_the_first_compiles_on_all_cores_and_the_others_wait_for_it():
    begun, entered = threading.Event(), threading.Event()

    def follow():
        module._compiled_for = ()  # another process knows nothing of this one's code
        begun.set()
        with compiling(digits(seed=2)) as compiled:
            entered.set()
            compiled()

    follower = threading.Thread(target=follow)
    with compiling(digits()) as compiled:
        assert inductor.compile_threads == available_cores()
        follower.start()
        assert begun.wait(10)
        assert not entered.wait(0.3)
        compiled()
        assert entered.wait(10)
        follower.join()
    assert inductor.compile_threads == 1


def test_who_fails_while_compiling_lets_the_others_begin(monkeypatch):
    with pytest.raises(RuntimeError, match="no compiler"), compiling(digits()):
        raise RuntimeError("no compiler")
    monkeypatch.setattr(module, "_compiled_for", ())
    with compiling(digits(seed=2)) as compiled:
        compiled()
