import pytest
import torch
from torch import nn

from tnlpad.training.evaluate import evaluate, evaluation_mode, outputs


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
    measured = evaluate(network, lambda i: images[i], index, labels, batch_size=7)
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
    results = [
        evaluate(network, lambda i: images[i], torch.arange(50), labels, batch_size=size) for size in (1, 50, 64)
    ]
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
    evaluate(network, lambda i: torch.ones(len(i), 4), torch.arange(9), torch.zeros(9, dtype=torch.int64))
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
        evaluate(network, lambda i: torch.ones(len(i), 4), empty, empty)
