"""Train a network that does not fit one device: shard weights, σ, γ and momenta over ranks, and export σ as one file.

torchrun --nproc-per-node 2 examples/sharded.py
"""

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from tnlpad import Decomposition, parameter_groups

EPOCHS, WRONG, BUDGET = 12, 0.4, 5_000_000  # bytes that a rank may hold

distributed.init_process_group("gloo")  # "nccl" on GPUs
rank, ranks = distributed.get_rank(), distributed.get_world_size()

generator = torch.Generator().manual_seed(1)  # the same on every rank, so that all agree on the batches
digits = load_digits()
images, clean = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
wrong = torch.rand(len(clean), generator=generator) < WRONG
labels = torch.where(wrong, (clean + torch.randint(1, 10, clean.shape, generator=generator)) % 10, clean)
train, test = torch.randperm(len(clean), generator=generator).split([1280, len(clean) - 1280])


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


torch.manual_seed(1)
model = network()
for layer in model[::2]:
    fully_shard(layer)  # gathered when it is needed, one after the other
fully_shard(model)
optimizer = Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.05, momentum=0.9, c1=1e-4, c2=1.0)

for _ in range(EPOCHS):
    optimizer.start_epoch()
    for batch in train[torch.randperm(len(train), generator=generator)].split(128):
        share = batch.chunk(ranks)[rank]
        F.cross_entropy(model(images[share]), labels[share]).backward()
        optimizer.step()
        optimizer.zero_grad()

states = [*optimizer.state.values(), *optimizer.base.state.values()]
tensors = [*model.parameters(), *(tensor for state in states for tensor in state.values())]
whole, held = sum(t.nbytes for t in tensors), sum(t.to_local().nbytes for t in tensors)
assert held <= BUDGET < whole, f"rank {rank} holds {held} of {whole} bytes, {BUDGET} are allowed"

sigma = optimizer.sigma_state_dict(model)  # on all ranks; rank 0 gets the tensors
if rank == 0:
    torch.save(sigma, "sharded.pt")
    plain = network()  # an ordinary model in one process
    plain.load_state_dict(torch.load("sharded.pt"))
    accuracy = (plain(images[test]).argmax(1) == clean[test]).float().mean()
    print(f"{whole / 1e6:.1f} MB in all, {held / 1e6:.1f} MB on a rank; {accuracy:.1%} of the test digits are right")
distributed.barrier()  # no rank leaves while another needs it
distributed.destroy_process_group()
