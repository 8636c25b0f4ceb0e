from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.toy import SIZE, Plain, sets
from tnlpad.core.decomposition import Decomposition
from tnlpad.core.split import parameter_groups
from tnlpad.training.measure import Evaluator, Samples, Sets, evaluate, evaluation_mode, measure, outputs


class Always(nn.Module):
    """Predicts one class for everything."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, images):
        return torch.zeros(len(images), 3).index_fill(1, torch.tensor([self.number]), 1.0)


class TwoFaced:
    """Two networks that always predict 0 or always 1, and a selection made by hand."""

    def __init__(self, picked):
        self.judged = {"zero": self.held(0), "one": self.held(1)}
        self.selections = {"some": torch.tensor(picked, dtype=torch.bool)}
        self.optimizers = []

    def held(self, number):
        @contextmanager
        def hold():
            yield Always(number)

        return hold


def samples(*labels):
    return Samples(
        images_at=lambda index: torch.zeros(len(index), 1),
        index=torch.arange(len(labels)),
        labels=torch.tensor(labels),
    )


BY_HAND = Sets(
    validation=samples(0, 0, 1, 2),
    test=samples(1, 1, 0, 0, 0),
    wrong=samples(0, 1, 1, 1),
    correct=torch.tensor([True, False, True, True, False, True]),
)


def test_memorisation_and_selection_by_hand():
    record = measure(TwoFaced([1, 1, 1, 0, 0, 0]), BY_HAND, Evaluator())
    assert {name: judged["memorised"] for name, judged in record["judged"].items()} == {"zero": 0.25, "one": 0.75}
    assert [record["judged"]["zero"][f"{name}_accuracy"] for name in ("validation", "test")] == [0.5, 0.6]
    assert record["judged"]["one"]["test_accuracy"] == pytest.approx(0.4)
    # -log(e / (e + 2)) where it is right, and one more where it is not
    assert record["judged"]["zero"]["validation_loss"] == pytest.approx(0.5514447 + 0.5)
    assert record["selection"] == {"some": {"picked": 3, "precision": pytest.approx(2 / 3)}}
    assert isinstance(record["selection"]["some"]["picked"], int)


def test_no_samples_picked_is_no_precision():
    record = measure(TwoFaced([0] * 6), BY_HAND, Evaluator())
    assert record["selection"] == {"some": {"picked": 0, "precision": None}}


def test_without_clean_labels():
    record = measure(TwoFaced([1] * 6), replace(BY_HAND, wrong=None, correct=None), Evaluator())
    assert "memorised" not in record["judged"]["zero"]
    assert record["selection"] == {}


def test_norms_of_a_decomposition():
    method = Plain()
    method.optimizers = [Decomposition(parameter_groups(method.network, init="zero"), torch.optim.SGD, lr=0.1)]
    method.optimizers[0].start_epoch()
    images = torch.randn(8, 3)
    method.network(images).square().sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in method.network.parameters()]).norm()
    method.optimizers[0].step()
    norms = measure(method, sets(), Evaluator())["norms"]
    assert list(norms) == ["gradient", "sigma", "gamma", "drift"]
    assert norms["gradient"] == pytest.approx(gradient.item(), rel=1e-5)
    for name, value in method.optimizers[0].norms().items():
        assert norms[name] == pytest.approx(value.item(), rel=1e-6)
    assert norms["gamma"] > 0
    assert norms["drift"] > 0


def test_without_a_step_there_is_no_gradient():
    assert measure(Plain(), sets(), Evaluator())["norms"] == {}


class Reads(TorchDispatchMode):
    """Counts how often a scalar is read back to the host."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ == "_local_scalar_dense"
        return func(*args, **(kwargs or {}))


def test_nothing_is_read_back_one_by_one():
    method = Plain()
    method.selections["even"][::2] = True
    with Reads() as reads:
        record = measure(method, sets(), Evaluator())
    assert reads.count == 0  # `tolist` of one tensor is no such read
    assert record["selection"]["even"]["picked"] == SIZE // 2
    with Reads() as reads:
        float(torch.ones(()))
    assert reads.count == 1


@pytest.mark.parametrize("bf16", [False, True])
def test_the_precision_of_measuring(bf16):
    method, seen = Plain(), set()
    method.network.register_forward_hook(lambda *found: seen.add(found[-1].dtype))
    measure(method, sets(), Evaluator(bf16=bf16))
    assert seen == {torch.bfloat16 if bf16 else torch.float32}


@pytest.fixture
def network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    for _ in range(3):
        net(torch.randn(16, 4) + 1)  # statistics other than the initial ones
    return net


def test_against_a_plain_computation(network):
    images, labels = torch.randn(50, 4), torch.randint(3, (30,))
    index = torch.randperm(50)[:30]
    measured = evaluate(network, Samples(images_at=lambda i: images[i], index=index, labels=labels, batch_size=7))
    network.eval()
    right, loss = 0, 0.0
    for place, label in zip(index.tolist(), labels.tolist(), strict=True):
        with torch.no_grad():
            probabilities = network(images[place : place + 1]).double().softmax(1)[0]
        right += int(probabilities.argmax()) == label
        loss -= float(probabilities[label].log())
    assert measured.accuracy.item() == pytest.approx(right / 30)
    assert measured.loss.item() == pytest.approx(loss / 30, rel=1e-5)


def test_the_size_of_the_batches_does_not_matter(network):
    images, labels = torch.randn(50, 4), torch.randint(3, (50,))
    every = Samples(images_at=lambda i: images[i], index=torch.arange(50), labels=labels)
    results = [evaluate(network, replace(every, batch_size=size)) for size in (1, 50, 64)]
    for result in results:
        assert torch.equal(result.accuracy, results[0].accuracy)
        torch.testing.assert_close(result.loss, results[0].loss)


def test_all_batches_have_one_size(network):
    """A compiled network would be compiled once more for a last one that is short."""
    seen = []
    network.register_forward_pre_hook(lambda _, images: seen.append(len(images[0])))
    found = outputs(network, lambda i: torch.ones(len(i), 4), torch.arange(9), batch_size=4)
    assert seen == [4, 4, 4]
    assert len(found) == 9


def test_nothing_about_the_network_changes(network):
    network[2].eval()  # a mixture of modes
    modes = [module.training for module in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    generator = torch.get_rng_state()
    labels = torch.zeros(9, dtype=torch.int64)
    evaluate(network, Samples(images_at=lambda i: torch.ones(len(i), 4), index=torch.arange(9), labels=labels))
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert torch.equal(generator, torch.get_rng_state())


@pytest.mark.parametrize("bf16", [False, True])
def test_outputs_are_numbers_without_a_graph_behind_them(network, bf16):
    images, seen = torch.randn(9, 4), []
    network.register_forward_hook(lambda *found: seen.append(found[-1].dtype))
    logits = outputs(network, lambda i: images[i], torch.arange(9), bf16=bf16)
    assert (logits.requires_grad, logits.dtype) == (False, torch.float32)
    assert seen == [torch.bfloat16 if bf16 else torch.float32]


def test_modes_come_back_after_an_error(network):
    with evaluation_mode(network):
        assert not any(module.training for module in network.modules())
    with pytest.raises(ZeroDivisionError), evaluation_mode(network):
        raise ZeroDivisionError
    assert all(module.training for module in network.modules())


def test_nothing_to_measure_on_is_refused(network):
    empty = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="index is empty"):
        evaluate(network, Samples(images_at=lambda i: torch.ones(len(i), 4), index=empty, labels=empty))
