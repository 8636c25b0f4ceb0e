import subprocess
import sys
from contextlib import nullcontext
from tempfile import TemporaryFile

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.toy import SIZE, Loader, Plain, points, sets
from tnlpad.memory import zeros
from tnlpad.records.store import RunFolder
from tnlpad.training import sample_scores
from tnlpad.training.loop import Schedule, train
from tnlpad.training.measure import Samples
from tnlpad.training.sample_scores import SampleStatistics, views

SCHEDULE = Schedule(epochs=6, learning_rate=0.1, milestones=(), decay=0.1)


class Table(nn.Module):
    """A network that looks up its logits in a table."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, rows):
        return self.logits[rows]


class Scripted:
    """A method whose networks return the given logits, epoch after epoch."""

    def __init__(self, **networks):
        self.networks = networks
        self.judged = {name: lambda name=name: nullcontext(self.networks[name].pop(0)) for name in networks}


def scripted(**epochs):
    return Scripted(**{name: [Table(logits) for logits in each] for name, each in epochs.items()})


def of_three(labels=(0, 1, 1), batch_size=2, **options):
    samples = Samples(
        images_at=lambda index: index, index=torch.arange(3), labels=torch.tensor(labels), batch_size=batch_size
    )
    return SampleStatistics(samples, 2, **options)


FIRST = [[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]
SECOND = [[0.0, 1.0], [0.0, 1.0], [0.0, 0.5]]


def test_all_batches_have_one_size():
    """A compiled network would be compiled once more for a last one that is short."""
    batches = []
    samples = Samples(
        images_at=lambda index: batches.append(index.tolist()) or index,
        index=torch.arange(3),
        labels=torch.tensor([0, 1, 1]),
        batch_size=2,
    )
    SampleStatistics(samples, 2).update(scripted(w=[FIRST]), 1, best=True)
    assert batches == [[0, 1], [1, 2]]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_margins_losses_and_forgetting_are_what_they_are_by_hand(batch_size):
    statistics = of_three(batch_size=batch_size)
    method = scripted(w=[FIRST, SECOND])
    statistics.update(method, 1, best=True)
    statistics.update(method, 2, best=False)
    numbers = statistics.result().numbers
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
    statistics = of_three()
    method = scripted(w=[FIRST, SECOND, FIRST])
    for epoch, best in ((1, True), (2, True), (3, False)):
        statistics.update(method, epoch, best=best)
    found = statistics.result()
    expected = (torch.tensor(FIRST).softmax(1) + torch.tensor(SECOND).softmax(1)) / 2
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    assert (found.epochs, found.chosen_epoch, found.views) == ((2, 3), 2, ("w",))
    # These are of that epoch alone, neither means nor sums.
    assert found.numbers["predicted"].tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.numbers["loss_chosen"], np.log1p(np.exp([1.0, -1.0, -0.5])), atol=1e-6)


@pytest.mark.parametrize("bf16", [False, True])
def test_evaluations_have_the_precision_of_training(bf16):
    method, seen = Plain(), []
    method.network.register_forward_hook(lambda *found: seen.append(found[-1].dtype))
    of_points(bf16=bf16).update(method, 1, best=True)
    assert seen == [torch.bfloat16 if bf16 else torch.float32]


def test_samples_are_evaluated_every_few_epochs_and_at_each_best_one():
    statistics = of_three(every=3)
    method = scripted(w=[FIRST] * 9)
    for epoch in range(1, 8):
        statistics.update(method, epoch, best=epoch in (1, 4))
    assert len(method.networks["w"]) == 9 - 4  # after epochs 1, 3, 4 and 6
    assert statistics.result().epochs == (3, 4)


def test_of_a_decomposition_both_are_evaluated_and_sigma_comes_first():
    method = scripted(w=[FIRST] * 9, sigma=[SECOND] * 9)
    assert views(method) == ("sigma", "w")
    statistics = of_three()
    for epoch in range(1, 6):
        statistics.update(method, epoch, best=True)
    assert [len(each) for each in method.networks.values()] == [9 - 5, 9 - 5]
    found = statistics.result()
    expected = (torch.tensor(FIRST).softmax(1) + torch.tensor(SECOND).softmax(1)) / 2
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    assert found.epochs == (5, 5)
    assert found.numbers["margin_w"].tolist() == [1.0, 3.0, -1.0]


def test_of_two_peers_the_one_to_ship_is_evaluated():
    assert views(scripted(first=[], second=[])) == ("first",)


def test_wrong_uses_raise():
    with pytest.raises(ValueError, match="after an epoch"):
        of_three().result()
    with pytest.raises(ValueError, match="every=0"):
        of_three(every=0)


def of_points(**options):
    images, labels = points()
    samples = Samples(images_at=lambda index: images[index], index=torch.arange(SIZE), labels=labels)
    return SampleStatistics(samples, 2, **options)


def trained(folder, statistics=None, schedule=SCHEDULE, on_epoch=None):
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
        statistics=statistics,
        on_epoch=on_epoch,
    )
    return [{key: value for key, value in record.items() if key != "seconds"} for record in result.history]


def folder_in(path):
    folder = RunFolder(path)
    folder.begin({})
    return folder


def test_a_run_gives_the_same_numbers_with_statistics(tmp_path):
    statistics = of_points()
    assert trained(folder_in(tmp_path / "with"), statistics) == trained(folder_in(tmp_path / "without"))
    assert statistics.result().epochs[1] == SCHEDULE.epochs


def test_a_killed_run_resumes_its_statistics(tmp_path):
    whole, halves = of_points(), of_points()
    trained(folder_in(tmp_path / "whole"), whole)

    def killed(record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(folder_in(tmp_path / "halves"), of_points(), on_epoch=killed)
    trained(RunFolder(tmp_path / "halves"), halves)
    one, other = whole.result(), halves.result()
    assert (one.epochs, one.chosen_epoch) == (other.epochs, other.chosen_epoch)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert one.numbers.keys() == other.numbers.keys()
    for name, values in one.numbers.items():
        np.testing.assert_array_equal(values, other.numbers[name], err_msg=name)


def test_statistics_of_other_samples_are_refused():
    statistics = of_three()
    statistics.update(scripted(w=[FIRST]), 1, best=True)
    with pytest.raises(ValueError, match="24 samples"):
        of_points().load_state_dict(statistics.state_dict())


def test_large_tables_lie_in_files(monkeypatch):
    def found():
        statistics, method = of_three(), scripted(w=[FIRST, SECOND])
        statistics.update(method, 1, best=True)
        again = of_three()
        again.load_state_dict(statistics.state_dict())
        again.update(method, 2, best=True)
        tables = [again.sums["w"], again.sums_until_chosen["w"]]
        return [again.result().probabilities, *(table["probabilities"].numpy() for table in tables)]

    made = []
    monkeypatch.setattr(sample_scores, "zeros", lambda *size: made.append(zeros(*size)) or made[-1])
    in_memory, count = found(), len(made)
    monkeypatch.setattr(sample_scores, "MAX_BYTES_IN_MEMORY", 10)
    for table, expected in zip(found(), in_memory, strict=True):
        np.testing.assert_array_equal(table, expected)
    assert [isinstance(each.base, np.memmap) for each in made] == [False] * count + [True] * count


def test_large_tables_lie_in_the_given_folder_without_a_name(tmp_path, monkeypatch):
    places = []

    def noting(*arguments, **options):
        places.append(options["dir"])
        return TemporaryFile(*arguments, **options)

    monkeypatch.setattr("tnlpad.memory.TemporaryFile", noting)
    monkeypatch.setattr(sample_scores, "MAX_BYTES_IN_MEMORY", 10)
    statistics = of_three(folder=tmp_path)
    statistics.update(scripted(w=[FIRST]), 1, best=True)
    statistics.result()
    assert places == [tmp_path] * 3
    assert not list(tmp_path.iterdir())
    table = zeros(10, 10, 10, tmp_path / "gone")
    assert (places[3:], isinstance(table.base, np.memmap)) == ([tmp_path / "gone", None], True)


MANY_CLASSES = r"""
import re, resource, sys
from contextlib import nullcontext
from tempfile import TemporaryFile
from pathlib import Path
import torch
from tnlpad.records.scores import SampleScores, write_scores
from tnlpad.records import columns  # what it imports is no part of the count
from tnlpad.training.measure import Samples, evaluate
from tnlpad.training.sample_scores import SampleStatistics
import pyarrow.parquet

SAMPLES, CLASSES, MOST = 20_000, 4_000, 400 << 20
torch.set_num_threads(1)
network = torch.nn.Linear(1, CLASSES)
inputs = torch.rand(SAMPLES, 1)
labels = torch.arange(SAMPLES) % CLASSES
samples = Samples(images_at=lambda index: inputs[index], index=torch.arange(SAMPLES), labels=labels)
used = 1024 * int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + MOST,) * 2)  # of a file that is mapped, nothing counts

class Method:
    judged = {"final": lambda: nullcontext(network)}

statistics = SampleStatistics(samples, CLASSES)
evaluate(network, samples)
statistics.update(Method, 1, best=True)
result = statistics.result()
scores = SampleScores(columns=result.numbers, probabilities=result.probabilities, class_names=(), views=(), facts={})
write_scores(Path(sys.argv[1]), scores)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_memory_does_not_follow_samples_times_classes(tmp_path):
    """Held as a whole, the probabilities of these samples alone take 320 MB, and two copies do not fit."""
    words = [sys.executable, "-c", MANY_CLASSES, str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "pred_probs.npy").stat().st_size > 4 * 20_000 * 4_000
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["pred_probs.npy", "scores.parquet"]
