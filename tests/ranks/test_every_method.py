"""Two ranks give the numbers of one process, for every method, from the first batch to the list of suspects."""

import csv

import pytest
import torch

from tests.ranks.comparison import different, leaves, without_times
from tests.ranks.double_runs import CASES, trained
from tests.ranks.launcher import succeeded
from tnlpad.methods import METHODS
from tnlpad.records.scores import read_scores
from tnlpad.records.store import find_runs
from tnlpad.suspects.export import write_suspects
from tnlpad.suspects.listing import rank_run


def test_two_ranks_equal_one_process(tmp_path):
    # One test of all methods: a launch takes seconds, and every worker of a parallel test run would need its own.
    assert set(CASES) > set(METHODS)
    succeeded("tests.ranks.double_runs", tmp_path / "two")
    assert {case: different_in(case, tmp_path) for case in CASES} == {case: [] for case in CASES}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_ranks_that_share_a_gpu_equal_one_process(tmp_path):
    succeeded("tests.ranks.double_runs", tmp_path / "two", "cuda")
    assert {case: different_in(case, tmp_path, device="cuda") for case in CASES} == {case: [] for case in CASES}


def different_in(case, out, **options):
    """Train a case in this process and return what differs from two ranks."""
    one = trained(case, out / "one", **options)
    (two,) = find_runs(out / "two" / case.replace("/", "-"))
    states = [torch.load(folder.path.parent / "state.pt", map_location="cpu") for folder in (one, two)]
    if options:  # on a GPU one process replays a captured step, which the optimizer does not count
        states = [without_counts(state) for state in states]
    assert len(list(leaves(states[0]))) > 4
    found = different(*states) + different(without_times(one.epochs()), without_times(two.epochs()))
    found += different_scores(*(read_scores(folder.path) for folder in (one, two)))
    return found + ([] if suspects(one) == suspects(two) else ["suspects"])


def without_counts(state):
    for optimizer in state["optimizers"]:
        optimizer.get("decomposition", {}).pop("steps", None)
    return state


def different_scores(one, two):
    names = ["probabilities"] if abs(one.probabilities - two.probabilities).max() > 1e-5 else []
    for name, column in one.columns.items():
        other = two.columns[name]
        same = abs(column - other).max() < 1e-4 if column.dtype.kind == "f" else (column == other).all()
        names += [] if same else [name]
    return names


def suspects(folder):
    """Return rank, sample, given and suggested label of the list."""
    run = rank_run(folder)
    write_suspects(folder.path, ["csv"], run, run.suspects(), data=None, root=None, warn=str)
    with (folder.path / "suspects.csv").open(newline="") as file:
        rows = [(row["rank"], row["index"], row["given"], row["suggested"]) for row in csv.DictReader(file)]
    assert len(rows) >= 100
    return rows
