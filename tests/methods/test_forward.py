"""A batch of one sample under BatchNorm, and passes that count as several."""

import pytest
import torch
from torch import nn

from tests.methods.problems import perceptron
from tnlpad.methods import forward as module
from tnlpad.methods.forward import counted_as, forward, mean_loss


@pytest.mark.parametrize("samples", [2, 5])
def test_a_batch_of_several_samples_passes_unchanged(samples):
    network, twin = perceptron(0, batchnorm=True), perceptron(0, batchnorm=True)
    points = torch.randn(samples, 2)
    assert torch.equal(forward(network, points), twin(points))
    assert torch.equal(network[1].running_mean, twin[1].running_mean)


def test_one_sample_is_normalised_by_the_running_statistics():
    network = perceptron(0, batchnorm=True)
    forward(network, torch.randn(50, 2))
    before = {name: value.clone() for name, value in network[1].state_dict().items()}
    point = torch.randn(1, 2)
    outputs = forward(network, point)
    outputs.sum().backward()
    assert all(layer.training for layer in network.modules())
    assert all(torch.equal(before[name], value) for name, value in network[1].state_dict().items())
    with pytest.raises(ValueError, match="more than 1 value"):
        network(point)  # what torch does by itself
    network.eval()
    assert torch.equal(outputs, network(point))


def test_a_pass_may_count_as_several():
    """In the running statistics; outputs are the same, and later passes count as one again."""
    points = torch.randn(50, 2)
    network, twin = (nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2, momentum=None)) for _ in range(2))
    with counted_as(3, network):
        outputs = network(points)
    for _ in range(3):
        assert torch.equal(twin(points), outputs)
    torch.testing.assert_close(network[0].running_mean, twin[0].running_mean)
    torch.testing.assert_close(network[0].running_var, twin[0].running_var)
    torch.testing.assert_close(network[1].running_mean, twin[1].running_mean)
    with pytest.raises(ZeroDivisionError), counted_as(3, network):
        raise ZeroDivisionError
    assert [layer.momentum for layer in network] == [0.1, None]


def test_other_layers_stay_in_training_mode_and_frozen_ones_frozen():
    network = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Dropout(1.0))
    network[1].eval()
    assert not forward(network, torch.ones(1, 2)).any()
    assert [layer.training for layer in network] == [True, False, True]


def test_a_compiled_network_and_its_loss_are_one_graph_for_all_networks_of_a_kind(monkeypatch):
    graphs = []

    def backend(graph, inputs):
        graphs.append([node.name for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    compiled = torch.compile(module._mean_loss, dynamic=False, backend=backend, fullgraph=True)
    monkeypatch.setattr(module, "_compiled_mean_loss", lambda: compiled)
    points, labels = torch.randn(5, 2), torch.tensor([0, 1, 2, 1, 0])
    torch.compiler.reset()
    for seed in range(2):
        network, twin = perceptron(seed), perceptron(seed)
        assert mean_loss(twin, points, labels).item() == nn.functional.cross_entropy(twin(points), labels).item()
        network.compile(backend=backend)
        loss = mean_loss(network, points, labels)
        loss.backward()
        assert loss.item() == pytest.approx(mean_loss(twin, points, labels).item())
        assert all(parameter.grad is not None for parameter in network.parameters())
    assert len(graphs) == 1
    assert "cross_entropy" in graphs[0]
    mean_loss(network, points[:1], labels[:1])  # one sample is not worth compiling for
    assert len(graphs) == 1
