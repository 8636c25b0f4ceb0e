"""Run by torchrun in test_sharded: trains sharded over two ranks, and writes what rank 0 gathers."""

import contextlib
import copy
import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from tests.core.problems import batches, parts
from tnlpad import Decomposition, parameter_groups
from tnlpad.core.parts import check_capturable

HALF, WHOLE = 12, 24
STEPS_PER_EPOCH = 4
SGD = {"base": torch.optim.SGD, "momentum": 0.9, "weight_decay": 1e-3, "lr": 0.05}
CASES = {
    "sgd": {**SGD, "init": "independent"},
    "tensor norms": {**SGD, "init": "random_split", "norm": "tensor"},
    "proximal": {**SGD, "init": "zero", "gamma_update": "proximal"},
    "adamw": {"base": torch.optim.AdamW, "lr": 1e-3, "init": "independent"},
    "replicas": {**SGD, "init": "independent"},  # a mesh of two copies of one shard
    "tensor parallel": {**SGD, "init": "random_split"},  # every rank sees the whole batch
}


def network(seed: int = 0) -> nn.Sequential:
    """Weights of 1, 5 and 10 rows: two ranks get different shares, and one of them nothing of the first."""
    torch.manual_seed(seed)
    convolutions = [nn.Conv2d(3, 1, 1), nn.Conv2d(1, 5, 3), nn.GroupNorm(1, 5), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(180, 10)).double()


def sharded(model: nn.Sequential, case: str = "sgd") -> nn.Sequential:
    """Shard one layer on its own and the rest, which keeps its gathered weights after a forward pass, with the root."""
    if case == "tensor parallel":
        plan = {"5": ColwiseParallel(output_layouts=Replicate())}
        return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    shape, names = ((2, 1), ("replicate", "shard")) if case == "replicas" else ((2,), ("shard",))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    fully_shard(model[1], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def build(model: nn.Module, case: str = "sgd") -> Decomposition:
    options = dict(CASES[case])
    groups = parameter_groups(model, init=options.pop("init"), generator=torch.Generator().manual_seed(3))
    return Decomposition(groups, options.pop("base"), c1=0.05, c2=0.6, **options)


def train(
    model: nn.Module, optimizer: Decomposition, first: int = 0, last: int = WHOLE, share: slice = slice(None)
) -> list[torch.Tensor]:
    """Train on a share of each batch, and return what the network answers with σ and with w after every epoch."""
    answers = []
    dtype = next(model.parameters()).dtype
    probe = batches(1, dtype)[0][0]
    for step, (images, labels) in list(enumerate(batches(WHOLE, dtype)))[first:last]:
        if step % STEPS_PER_EPOCH == 0:
            optimizer.start_epoch()
        nn.functional.cross_entropy(model(images[share]), labels[share]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % STEPS_PER_EPOCH == 2:  # within an epoch, so that σ is away from the anchor
            with optimizer.sigma_weights(), torch.no_grad():
                answers.append(model(probe))
            with torch.no_grad():
                answers.append(model(probe))
    return answers


def trained(case: str, share: slice) -> dict[str, object]:
    model = sharded(network(), case)
    optimizer = build(model, case)
    answers = train(model, optimizer, share=slice(None) if case == "tensor parallel" else share)
    norms = optimizer.norms()
    assert all(type(value) is torch.Tensor for value in norms.values())
    return {
        "answers": answers,
        "norms": norms,
        "sigma": optimizer.sigma_state_dict(model),
        "state": optimizer.full_state_dict(),
    }


def check_memory(optimizer: Decomposition) -> None:
    """This rank holds its share of σ, γ, the anchor and both momenta, and no view into a whole tensor."""
    for name in ("sigma", "gamma", "anchor"):
        for whole in parts(optimizer, name):
            check_share(whole)
    assert all(len(state) == 1 for state in optimizer.base.state.values())
    for state in optimizer.base.state.values():
        check_share(state["momentum_buffer"])


def check_share(whole: torch.Tensor) -> None:
    rows, rank = whole.shape[0], distributed.get_rank()
    expected = (rows + 1) // 2 if rank == 0 else rows // 2
    own = whole.to_local()
    assert own.shape[0] == expected
    assert own.untyped_storage().nbytes() == expected * whole[0].numel() * 8


def check_resumed_on_two_ranks(path: Path, share: slice) -> dict[str, torch.Tensor]:
    """Save in the middle as one file and as shards; go on from each, and from the file of one process."""
    model = sharded(network())
    optimizer = build(model)
    train(model, optimizer, 0, HALF, share)
    saved = {"model": gathered(model), "optimizer": optimizer.full_state_dict()}
    if distributed.get_rank() == 0:
        torch.save(saved, path / "two.pt")
    else:
        assert saved["optimizer"] == {}
    checkpoint.save({"model": model, "optimizer": optimizer}, checkpoint_id=path / "shards")
    distributed.barrier()
    return {
        "two.pt": resume_from_file(path / "two.pt", share),
        "one.pt": resume_from_file(path / "one.pt", share),
        "shards": resume_from_shards(path / "shards", share),
    }


def gathered(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}


def resume_from_file(path: Path, share: slice) -> dict[str, torch.Tensor]:
    saved = torch.load(path, mmap=True)
    model = sharded(network(seed=5))
    optimizer = build(model)
    set_model_state_dict(model, saved["model"], options=StateDictOptions(full_state_dict=True))
    optimizer.load_state_dict(saved["optimizer"])
    check_memory(optimizer)
    train(model, optimizer, HALF, WHOLE, share)
    return optimizer.sigma_state_dict(model)


def resume_from_shards(path: Path, share: slice) -> dict[str, torch.Tensor]:
    model = sharded(network(seed=5))
    optimizer = build(model)
    with pytest.raises(ValueError, match=r"momentum_buffer.*prepare_to_load"):
        checkpoint.load({"model": model, "optimizer": optimizer}, checkpoint_id=path)
    optimizer.prepare_to_load()
    optimizer.start_epoch()
    with pytest.raises(RuntimeError, match="nothing was loaded"):
        optimizer.step()
    checkpoint.load({"model": model, "optimizer": optimizer}, checkpoint_id=path)
    train(model, optimizer, HALF, WHOLE, share)
    return optimizer.sigma_state_dict(model)


def check_guards() -> None:
    model = sharded(network())
    with pytest.raises(ValueError, match=r"bfloat16 is not for sharded weights.*MixedPrecisionPolicy"):
        Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.1, working_dtype=torch.bfloat16)
    optimizer = build(model)
    train(model, optimizer, 0, 2)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model[5].weight.copy_(model[5].weight.clone())
    train(model, optimizer, 2, 3)  # the same values again are no change
    model.load_state_dict(before)
    with pytest.raises(RuntimeError, match=r"adopt_weights\(\)"):
        optimizer.step()
    optimizer.adopt_weights()
    assert optimizer.norms()["gamma"] == 0
    train(model, optimizer, 4, 6)
    optimizer.eval()
    with pytest.raises(RuntimeError, match="holds σ"):
        optimizer.step()
    optimizer.train()
    with pytest.raises(RuntimeError, match="No decomposed weight has a gradient"):
        optimizer.step()


def check_kernel(share: slice) -> None:
    """The one-pass kernel, interpreted, updates this rank's pieces as the general step updates whole weights."""
    for case in ("sgd", "tensor norms"):
        whole, model = network().float(), sharded(network().float())
        general, fused = build(whole, case), build(model, case)
        fused._can_fuse = True
        train(whole, general, 0, 6)
        train(model, fused, 0, 6, share)
        assert fused._fused is not None
        assert general._fused is None
        expected, found = general.full_state_dict(), fused.full_state_dict()
        if distributed.get_rank() == 0:
            torch.testing.assert_close(found["state"], expected["state"], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(found["base"]["state"], expected["base"]["state"], rtol=1e-4, atol=1e-5)


def check_given_parts() -> None:
    """Full tensors of σ and γ are taken by every rank in its share."""
    whole = network()
    decomposed = parameter_groups(whole)[0]
    model = sharded(network())
    groups = parameter_groups(model)
    groups[0]["sigma"] = [2 * weight.detach() for weight in decomposed["params"]]
    groups[0]["gamma"] = [weight.detach() for weight in decomposed["params"]]
    Decomposition(groups, torch.optim.SGD, lr=0.1)
    for ours, theirs in zip(groups[0]["params"], decomposed["params"], strict=True):
        torch.testing.assert_close(ours.full_tensor(), 3 * theirs)


def check_page(path: Path) -> None:
    """The code on docs/scaling.md runs, block after block."""
    text = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    page = text[text.index("## Sharded weights") :].split("\n## ")[0]
    model = network()
    names: dict[str, object] = {"model": model, "layers": [model[1]], "torch": torch}
    names |= {"Decomposition": Decomposition, "parameter_groups": parameter_groups}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    (path / "page").mkdir(exist_ok=True)
    with contextlib.chdir(path / "page"):
        for number, block in enumerate(blocks):
            exec(compile(block, "docs/scaling.md", "exec"), names)
            if number == 0:
                train(model, names["optimizer"], 0, 2)
            distributed.barrier()
    train(model, names["optimizer"], 2, 3)
    assert names["optimizer"].steps == 3


def check_refusals() -> None:
    model = sharded(network())
    groups = parameter_groups(model)
    with pytest.raises(ValueError, match=r"sharded: pass groups from parameter_groups"):
        Decomposition(model.parameters(), torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="fused=True"):
        Decomposition(groups, torch.optim.SGD, lr=0.1, fused=True)
    for base in (torch.optim.Rprop, torch.optim.Adafactor):
        with pytest.raises(ValueError, match=f"{base.__name__} does not take sharded weights"):
            Decomposition(groups, base, lr=0.1)
    with pytest.raises(ValueError, match="full_state_dict"):
        build(network()).load_state_dict(build(model).state_dict())
    with pytest.raises(RuntimeError, match="CUDA graph"):
        check_capturable(groups, torch.optim.SGD(groups[0]["params"]), None)
    for original in (True, False):
        flat = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=original)
        with pytest.raises(ValueError, match="fully_shard instead"):
            parameter_groups(flat)
        with pytest.raises(ValueError, match="fully_shard instead"):
            Decomposition(flat.parameters(), torch.optim.SGD, lr=0.1)
    early = network()
    optimizer = build(early)
    sharded(early)
    optimizer.start_epoch()
    early(batches(1)[0][0]).sum().backward()
    with pytest.raises(RuntimeError, match=r"after fully_shard"):
        optimizer.step()
    with pytest.raises(ValueError, match=r"0\.weight .* is not a parameter"):
        optimizer.sigma_state_dict(early)


def main(path: Path) -> None:
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    share = slice(rank * 4, rank * 4 + 4)  # of a batch of eight
    results = {case: trained(case, share) for case in CASES}
    resumed = check_resumed_on_two_ranks(path, share)
    check_guards()
    if find_spec("triton"):
        check_kernel(share)
    check_given_parts()
    check_page(path)
    check_refusals()
    if rank == 0:
        torch.save({"cases": results, "resumed": resumed}, path / "results.pt")
    # No rank may leave while another still reads from it: gloo takes a closed connection for an error.
    (path / f"done{rank}").touch()
    while not all((path / f"done{other}").exists() for other in range(world)):
        time.sleep(0.02)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
