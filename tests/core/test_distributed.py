"""Two processes on two halves of a batch must train exactly as one process on the whole."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.core.problems import batches, parts, sgd, train
from tests.core.two_ranks import network
from tnlpad import parameter_groups

ROOT = Path(__file__).parents[2]


def test_two_ranks_give_the_sigma_of_one_process(tmp_path):
    saved = tmp_path / "two.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.core.two_ranks", str(saved)]
    # Twice if need be: between finding a free port and using it, another test may take it. The numbers get no retry.
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, timeout=300, capture_output=True, text=True)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    two = torch.load(saved)

    model = network()
    optimizer = sgd(model)
    train(model, optimizer, batches(40), epoch_length=8)
    for name in ("sigma", "gamma"):
        for ours, theirs in zip(parts(optimizer, name), two[name], strict=True):
            assert (ours - theirs).abs().max() < 1e-12


def test_a_random_split_without_a_common_seed_is_refused(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="one seed for all of them"):
        parameter_groups(network(), init="independent")
    parameter_groups(network(), init="zero")
