"""A task that trains in milliseconds: points in two clusters, a network of one layer with BatchNorm, a plain method."""

from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from tnlpad.methods.saving import restore, state_of
from tnlpad.training.measure import Samples, Sets
from tnlpad.training.sample_scores import SampleStatistics
from tnlpad.types import Batch

SIZE = 24


def points(size=SIZE):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) % 2
    return torch.randn(size, 3, generator=generator) + 2.0 * labels.unsqueeze(1), labels


class Loader:
    """Batches of eight in a random order from a stream of its own."""

    def __init__(self):
        self.images, self.labels = points()
        self.order = torch.Generator().manual_seed(1)

    def __len__(self):
        return SIZE // 8

    def __iter__(self):
        for index in torch.randperm(SIZE, generator=self.order).split(8):
            yield Batch(index=index, images=self.images[index], labels=self.labels[index])


class Plain:
    """Cross entropy; picks the even samples, and draws from the global generator as dropout does."""

    def __init__(self, rate=0.1):
        torch.manual_seed(3)
        self.network = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
        self.optimizers = [torch.optim.SGD(self.network.parameters(), lr=rate, momentum=0.9)]
        self.judged = {"w": lambda: nullcontext(self.network)}
        self.reported = ("w",)
        self.selections = {"even": torch.zeros(SIZE, dtype=torch.bool)}
        self.seen = torch.zeros((), dtype=torch.int64)
        self.spoil = None  # an epoch and a step in which the loss is not a number

    def begin_epoch(self, clock):
        self.network.train()
        self.selections["even"].zero_()
        self.epoch, self.steps = clock.epoch, 0

    def step(self, batch, clock):
        self.steps += 1
        self.seen += 1
        self.selections["even"][batch.index] = batch.index % 2 == 0
        loss = F.cross_entropy(self.network(batch.images), batch.labels)
        if self.spoil is not None and self.spoil[:2] == (self.epoch, self.steps):
            loss = loss * self.spoil[2]
        self.optimizers[0].zero_grad()
        loss.backward()
        self.optimizers[0].step()
        return loss.detach()

    def state_dict(self):
        return state_of([self.network], self.optimizers, {"seen": self.seen, **self.selections})

    def load_state_dict(self, state):
        restore(state, [self.network], self.optimizers, {"seen": self.seen, **self.selections})


def sets(test_labels=None):
    images, labels = points()
    every = Samples(images_at=lambda index: images[index], index=torch.arange(SIZE), labels=labels)
    test = Samples(images_at=every.images_at, index=every.index, labels=labels if test_labels is None else test_labels)
    wrong = Samples(images_at=every.images_at, index=torch.tensor([0, 1, 2]), labels=torch.tensor([1, 1, 1]))
    return Sets(validation=every, test=test, wrong=wrong, correct=torch.arange(SIZE) % 3 != 0)


class Knows(nn.Module):
    """Gives the right label, which is 0, to the first `known` samples and a wrong one to the others."""

    def __init__(self):
        super().__init__()
        self.known = nn.Parameter(torch.zeros(()))

    def forward(self, index):
        right = (index < self.known).float()
        return torch.stack([right, 1 - right], dim=1)


class Scripted:
    """Two views whose weights and accuracy in each epoch are known beforehand; one of them chooses."""

    def __init__(self, *, chosen_by=("sigma",), **known):
        self.script, self.networks = known, {name: Knows() for name in known}
        self.judged = {name: lambda name=name: nullcontext(self.networks[name]) for name in known}
        self.reported, self.chosen_by, self.selections = ("sigma",), chosen_by, {}
        self.optimizers = [torch.optim.SGD([network.known for network in self.networks.values()], lr=0.1)]

    def begin_epoch(self, clock):
        for name, network in self.networks.items():
            network.known.data.fill_(self.script[name][clock.epoch - 1])

    def step(self, batch, clock):
        return torch.zeros(())

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def _known(size=10):
    return Samples(images_at=lambda index: index, index=torch.arange(size), labels=torch.zeros(size, dtype=torch.int64))


def scripted_sets():
    """Samples whose share of right answers is a tenth of `Knows.known`."""
    return Sets(validation=_known(), test=_known(), wrong=None, correct=None)


def scripted_statistics():
    """Per-sample statistics of those samples."""
    return SampleStatistics(_known(), 2)
