from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.toy import SIZE, Loader, Plain, points, sets
from tnlpad.records.store import RunFolder
from tnlpad.training.loop import Schedule, train
from tnlpad.training.measure import Samples
from tnlpad.training.sample_scores import Census, views

SCHEDULE = Schedule(epochs=6, learning_rate=0.1, milestones=(), decay=0.1)


class Table(nn.Module):
    """A network that looks its answers up."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, rows):
        return self.logits[rows]


class Told:
    """A method whose networks give these logits, epoch after epoch."""

    def __init__(self, **networks):
        self.networks = networks
        self.judged = {name: lambda name=name: nullcontext(self.networks[name].pop(0)) for name in networks}


def told(**epochs):
    return Told(**{name: [Table(logits) for logits in each] for name, each in epochs.items()})


def of_three(labels=(0, 1, 1), batch_size=2, **options):
    samples = Samples(
        images_at=lambda index: index, index=torch.arange(3), labels=torch.tensor(labels), batch_size=batch_size
    )
    return Census(samples, 2, **options)


FIRST = [[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]
SECOND = [[0.0, 1.0], [0.0, 1.0], [0.0, 0.5]]


def test_all_batches_have_one_size():
    """A compiled network would be compiled once more for a last one that is short."""
    asked = []
    samples = Samples(
        images_at=lambda index: asked.append(index.tolist()) or index,
        index=torch.arange(3),
        labels=torch.tensor([0, 1, 1]),
        batch_size=2,
    )
    Census(samples, 2).take(told(w=[FIRST]), 1, best=True)
    assert asked == [[0, 1], [1, 2]]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_margins_losses_and_forgetting_are_what_they_are_by_hand(batch_size):
    census = of_three(batch_size=batch_size)
    method = told(w=[FIRST, SECOND])
    census.take(method, 1, best=True)
    census.take(method, 2, best=False)
    numbers = census.counted().numbers
    assert numbers["margin_w"].tolist() == [1.0, 3.0, -1.0]
    assert numbers["margin_w_to_end"].tolist() == [0.0, 2.0, -0.25]
    assert numbers["agreed_w"].tolist() == [1.0, 1.0, 0.0]
    assert numbers["agreed_w_to_end"].tolist() == [0.5, 1.0, 0.5]
    assert numbers["forgotten_w"].tolist() == [0, 0, 0]
    assert numbers["forgotten_w_to_end"].tolist() == [1, 0, 0]
    assert numbers["predicted"].tolist() == [0, 1, 0]
    assert numbers["loss_w"][0] == pytest.approx(np.log1p(np.exp(-1)), abs=1e-6)
    assert numbers["loss_chosen"][2] == pytest.approx(np.log1p(np.exp(1)), abs=1e-6)


def test_probabilities_are_means_until_the_chosen_epoch():
    census = of_three()
    method = told(w=[FIRST, SECOND, FIRST])
    for epoch, best in ((1, True), (2, True), (3, False)):
        census.take(method, epoch, best=best)
    found = census.counted()
    expected = (torch.tensor(FIRST).softmax(1) + torch.tensor(SECOND).softmax(1)) / 2
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    assert (found.epochs, found.chosen_epoch, found.views) == ((2, 3), 2, ("w",))
    # And what belongs to that epoch alone is neither a mean nor a sum.
    assert found.numbers["predicted"].tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.numbers["loss_chosen"], np.log1p(np.exp([1.0, -1.0, -0.5])), atol=1e-6)


@pytest.mark.parametrize("bf16", [False, True])
def test_it_asks_in_the_precision_of_training(bf16):
    method, seen = Plain(), []
    method.network.register_forward_hook(lambda *found: seen.append(found[-1].dtype))
    of_points(bf16=bf16).take(method, 1, best=True)
    assert seen == [torch.bfloat16 if bf16 else torch.float32]


def test_it_looks_after_every_few_epochs_and_always_at_the_best():
    census = of_three(every=3)
    method = told(w=[FIRST] * 9)
    for epoch in range(1, 8):
        census.take(method, epoch, best=epoch in (1, 4))
    assert len(method.networks["w"]) == 9 - 4  # after epochs 1, 3, 4 and 6
    assert census.counted().epochs == (3, 4)


def test_of_a_decomposition_both_are_asked_and_sigma_comes_first():
    method = told(w=[FIRST] * 9, sigma=[SECOND] * 9)
    assert views(method) == ("sigma", "w")
    census = of_three()
    for epoch in range(1, 6):
        census.take(method, epoch, best=True)
    assert [len(each) for each in method.networks.values()] == [9 - 5, 9 - 5]
    found = census.counted()
    expected = (torch.tensor(FIRST).softmax(1) + torch.tensor(SECOND).softmax(1)) / 2
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    assert found.epochs == (5, 5)
    assert found.numbers["margin_w"].tolist() == [1.0, 3.0, -1.0]


def test_of_two_peers_the_one_to_ship_is_asked():
    assert views(told(first=[], second=[])) == ("first",)


def test_nothing_counted_is_said():
    with pytest.raises(ValueError, match="after an epoch"):
        of_three().counted()
    with pytest.raises(ValueError, match="every=0"):
        of_three(every=0)


def of_points(**options):
    images, labels = points()
    samples = Samples(images_at=lambda index: images[index], index=torch.arange(SIZE), labels=labels)
    return Census(samples, 2, **options)


def trained(folder, census=None, schedule=SCHEDULE, on_epoch=None):
    torch.manual_seed(5)
    method, loader = Plain(), Loader()
    result = train(
        method,
        loader,
        sets(),
        schedule,
        folder=folder,
        streams={"order": loader.order},
        device=torch.device("cpu"),
        census=census,
        on_epoch=on_epoch,
    )
    return [{key: value for key, value in record.items() if key != "seconds"} for record in result.history]


def folder_in(path):
    folder = RunFolder(path)
    folder.begin({})
    return folder


def test_a_run_gives_the_same_numbers_with_a_census(tmp_path):
    census = of_points()
    assert trained(folder_in(tmp_path / "with"), census) == trained(folder_in(tmp_path / "without"))
    assert census.counted().epochs[1] == SCHEDULE.epochs


def test_a_killed_run_goes_on_counting_where_it_was(tmp_path):
    whole, halves = of_points(), of_points()
    trained(folder_in(tmp_path / "whole"), whole)

    def killed(record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(folder_in(tmp_path / "halves"), of_points(), on_epoch=killed)
    trained(RunFolder(tmp_path / "halves"), halves)
    one, other = whole.counted(), halves.counted()
    assert (one.epochs, one.chosen_epoch) == (other.epochs, other.chosen_epoch)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert one.numbers.keys() == other.numbers.keys()
    for name, values in one.numbers.items():
        np.testing.assert_array_equal(values, other.numbers[name], err_msg=name)


def test_a_census_of_other_samples_is_refused():
    census = of_three()
    census.take(told(w=[FIRST]), 1, best=True)
    with pytest.raises(ValueError, match="census of 24 samples"):
        of_points().load_state_dict(census.state_dict())
