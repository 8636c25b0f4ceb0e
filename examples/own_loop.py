"""Use the decomposition in your own training loop: replace the optimizer, start the epochs, evaluate and save σ.

python examples/own_loop.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from tnlpad import Decomposition, parameter_groups

EPOCHS, WRONG = 20, 0.4

generator = torch.Generator().manual_seed(1)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
clean = torch.tensor(digits.target)

# Replace 40 % of the labels by another class at random, to simulate a noisy dataset.
wrong = torch.rand(len(clean), generator=generator) < WRONG
labels = torch.where(wrong, (clean + torch.randint(1, 10, clean.shape, generator=generator)) % 10, clean)
order = torch.randperm(len(clean), generator=generator)
train, validation, test = order[:1200], order[1200:1500], order[1500:]

torch.manual_seed(1)
layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)]
model = nn.Sequential(*layers)
optimizer = Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.02, momentum=0.9, c1=1e-4, c2=1.0)


def accuracy(which: torch.Tensor, truth: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(images[which]).argmax(1) == truth[which]).float().mean().item()


best = 0.0
for epoch in range(1, EPOCHS + 1):
    optimizer.start_epoch()
    for batch in train[torch.randperm(len(train), generator=generator)].split(64):
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with optimizer.sigma_weights():
        found = accuracy(validation, labels)  # noisy labels are enough to select the epoch
    if found > best:
        best, chosen, sigma = found, epoch, optimizer.sigma_state_dict(model)

model.load_state_dict(sigma)  # an ordinary model from here on
print(f"epoch {chosen} chosen on noisy validation labels: {accuracy(test, clean):.1%} of the test digits are right")
