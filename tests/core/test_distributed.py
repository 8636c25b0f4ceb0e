"""Two processes on two halves of a batch must train exactly as one process on the whole."""

import pytest
import torch

from tests.core.problems import batches, parts, sgd, train
from tests.core.two_ranks import network
from tests.ranks.launcher import succeeded
from tnlpad import parameter_groups


def test_two_ranks_give_the_sigma_of_one_process(tmp_path):
    saved = tmp_path / "two.pt"
    succeeded("tests.core.two_ranks", saved)
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
