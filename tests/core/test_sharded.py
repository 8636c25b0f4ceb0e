"""Two ranks that share the weights (FSDP2) must train exactly as one process that holds them."""

import os

import pytest
import torch
from torch.distributed import checkpoint

from tests.core.sharded_ranks import CASES, HALF, WHOLE, build, network, train
from tests.ranks.launcher import succeeded

CLOSE = {"rtol": 0, "atol": 1e-12}

pytestmark = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"), reason="fully_shard() of this torch does not run on CPUs"
)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Save a state of one process, launch the two ranks, and return the folder of what they wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    model = network()
    optimizer = build(model)
    train(model, optimizer, 0, HALF)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "one.pt")
    succeeded("tests.core.sharded_ranks", folder, env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"})
    return folder


@pytest.fixture(scope="module")
def results(ranks):
    return torch.load(ranks / "results.pt")


@pytest.mark.parametrize("case", CASES)
def test_sharded_training_is_that_of_one_process(results, case):
    two = results["cases"][case]
    model = network()
    optimizer = build(model, case)
    torch.testing.assert_close(two["answers"], train(model, optimizer), **CLOSE)
    torch.testing.assert_close(two["norms"], optimizer.norms(), **CLOSE)
    assert two["norms"]["gamma"] > 0
    torch.testing.assert_close(two["sigma"], dict(optimizer.sigma_state_dict(model)), **CLOSE)
    assert all(type(tensor) is torch.Tensor for tensor in two["sigma"].values())
    network(seed=5).load_state_dict(two["sigma"])
    ours = optimizer.state_dict()
    assert two["state"].keys() == ours.keys()
    torch.testing.assert_close(two["state"]["state"], ours["state"], **CLOSE)
    torch.testing.assert_close(two["state"]["base"]["state"], ours["base"]["state"], **CLOSE)


@pytest.mark.parametrize("saved", ["two.pt", "one.pt", "shards"])
def test_two_ranks_resume_to_the_same_numbers(results, saved):
    """From a file that two ranks gathered, one that an unsharded process wrote, and a sharded checkpoint."""
    torch.testing.assert_close(results["resumed"][saved], results["cases"]["sgd"]["sigma"], **CLOSE)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("saved", ["two.pt", "shards"])
def test_one_process_resumes_what_two_ranks_saved(ranks, results, saved):
    model = network(seed=5)
    optimizer = build(model)
    if saved == "shards":
        optimizer.prepare_to_load()
        checkpoint.load({"model": model, "optimizer": optimizer}, checkpoint_id=ranks / saved)
    else:
        state = torch.load(ranks / saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    train(model, optimizer, HALF, WHOLE)
    expected = results["cases"]["sgd"]["sigma"]
    torch.testing.assert_close(dict(optimizer.sigma_state_dict(model)), expected, **CLOSE)
