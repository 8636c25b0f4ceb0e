"""Shares of a batch, and errors that concern several ranks."""

import os
from types import SimpleNamespace

import pytest
import torch
import typer
from torch import distributed, nn

from tests.ranks.launcher import succeeded
from tnlpad.cli.output import fail_on_any_rank, say
from tnlpad.errors import DataError
from tnlpad.methods.forward import forward
from tnlpad.ranks import group
from tnlpad.ranks.launch import launched_count, launched_rank, local_rank
from tnlpad.runs.config import configure
from tnlpad.runs.run import compiling, run

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def pretend(monkeypatch, rank, count):
    monkeypatch.setattr(group, "_group", SimpleNamespace(rank=rank, count=count, batch_size=None, divided=False))


@pytest.mark.parametrize(("total", "count"), [(64, 2), (65, 2), (101, 3), (7, 8), (8, 8), (1, 2), (3, 3)])
def test_shares_cover_a_batch_in_order(monkeypatch, total, count):
    rows = list(range(total))
    shares = []
    for rank in range(count):
        pretend(monkeypatch, rank, count)
        shares.append(rows[group.share(total)])
    if total < count:
        assert shares == [rows] * count
    else:
        assert [row for share in shares for row in share] == rows
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_alone_a_rank_takes_all(monkeypatch):
    pretend(monkeypatch, 1, 2)
    with group.alone():
        assert group.share(10) == slice(0, 10)
        assert group.count() == 1
    assert group.share(10) == slice(5, 10)


def test_a_process_without_a_launcher_is_the_only_rank(monkeypatch):
    monkeypatch.setattr(os, "environ", {"WORLD_SIZE": "8", "SLURM_PROCID": "3"})
    assert (launched_count(), launched_rank(), local_rank()) == (1, 0, 0)
    monkeypatch.setattr(os, "environ", LAUNCHED)
    assert (launched_count(), launched_rank(), local_rank()) == (8, 3, 1)


def test_a_pass_outside_a_step_needs_its_size(monkeypatch):
    pretend(monkeypatch, 0, 2)
    with pytest.raises(RuntimeError, match="size of its batch"):
        forward(nn.Linear(2, 2), torch.zeros(3, 2))


def test_more_ranks_than_samples_in_a_batch_are_refused(monkeypatch, tmp_path):
    pretend(monkeypatch, 0, 8)
    monkeypatch.setattr(group, "from_each", lambda value: [value])
    monkeypatch.setattr(group, "on_first", lambda function: function())
    with pytest.raises(ValueError, match=r"batch_size=4 on 8 ranks.*at most 4"):
        run(configure("digits", settings={"batch_size": 4}), tmp_path)


def test_ranks_that_disagree_are_named(monkeypatch):
    monkeypatch.setattr(group, "from_each", lambda value: ["a", "a", "b"])
    with pytest.raises(ValueError, match=r"Rank 2 has another configuration than rank 0 \(b and a\)"):
        group.require_same("a", "configuration")


def test_only_errors_of_communication_are_taken_for_a_lost_rank():
    assert group._of_communication(RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer"))
    assert group._of_communication(distributed.DistBackendError("NCCL error"))
    assert not group._of_communication(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_three_ranks_exchange_rows_errors_and_statistics(tmp_path):
    succeeded("tests.ranks.three_ranks", tmp_path, ranks=3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_three_ranks_that_share_a_gpu_exchange_statistics(tmp_path):
    succeeded("tests.ranks.three_ranks", tmp_path, "cuda", ranks=3)


def test_an_error_of_another_rank_names_it(monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", LAUNCHED)
    with pytest.raises(typer.Exit) as ended:
        fail_on_any_rank("cannot read a.jpg", DataError(), code=3)
    assert (ended.value.exit_code, capsys.readouterr().err) == (3, "Error on rank 3: cannot read a.jpg\n")
    common = DataError()
    common.add_note(group.OF_FIRST)
    with pytest.raises(typer.Exit):
        fail_on_any_rank("cannot read a.jpg", common)
    say("Loading torch.")
    assert capsys.readouterr().err == ""


def test_ranks_compile_nothing(monkeypatch):
    # Of processes that compile, one waits for the other, and ranks wait for each other at every step.
    monkeypatch.setattr("tnlpad.runs.run._compile_lock", lambda _: pytest.fail("waits for another rank"))
    pretend(monkeypatch, 0, 2)
    with compiling(configure("digits", settings={"compiled": True})) as compiled:
        compiled()
