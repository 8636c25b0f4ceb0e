from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.toy import SIZE, Plain, sets
from tnlpad.core.decomposition import Decomposition
from tnlpad.core.split import parameter_groups
from tnlpad.training.measure import Evaluator, Samples, Sets, measure


class Always(nn.Module):
    """Says the same class whatever it sees."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, images):
        return torch.zeros(len(images), 3).index_fill(1, torch.tensor([self.number]), 1.0)


class TwoFaced:
    """Two networks that always say 0 or always 1, and a selection made by hand."""

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


def test_where_nobody_knows_the_truth():
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
