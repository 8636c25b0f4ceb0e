"""Run by torchrun in test_distributed: trains on this rank's share of the batches and saves σ from rank 0."""

import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.core.problems import batches, parts, sgd


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 10)).double()


def main(path: str) -> None:
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    for step, (images, labels) in enumerate(batches(40)):
        if step % 8 == 0:
            optimizer.start_epoch()
        nn.functional.cross_entropy(model(images.chunk(world)[rank]), labels.chunk(world)[rank]).backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        torch.save({"sigma": parts(optimizer, "sigma"), "gamma": parts(optimizer, "gamma")}, path)
    # No rank may leave while another still reads from it: gloo takes a closed connection for an error.
    Path(f"{path}.done{rank}").touch()
    while not all(Path(f"{path}.done{other}").exists() for other in range(world)):
        time.sleep(0.02)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
