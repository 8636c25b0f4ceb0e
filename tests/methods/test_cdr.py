"""CDR's rule by hand, and its equivalence with plain training."""

import pytest
import torch
from torch import nn

from tests.methods.problems import batches, blobs, build, same, setup_for, train, weights
from tnlpad.methods.cdr import mask_gradients
from tnlpad.types import Clock


def parameter(values, gradient):
    tensor = nn.Parameter(torch.tensor(values))
    tensor.grad = torch.tensor(gradient)
    return tensor


def test_important_weights_are_selected_over_all_layers_together():
    first = parameter([[1.0, -2.0], [3.0, 0.1]], [[0.5, 0.5], [-0.1, 9.0]])  # |g·w| = 0.5, 1.0, 0.3, 0.9
    second = parameter([[4.0, 1.0]], [[-2.0, 0.2]])  # |g·w| = 8.0, 0.2
    mask_gradients([first, second], torch.tensor(0.5, dtype=torch.float64))  # ⌊0.5·6⌋ = 3: 8.0, 1.0, 0.9
    assert first.grad.tolist() == [[0.0, 0.25], [0.0, 4.5]]
    assert second.grad.tolist() == [[-1.0, 0.0]]


@pytest.mark.parametrize(("keep", "count"), [(0.5, 2), (0.6, 3), (0.99, 4), (0.05, 1)])
def test_the_number_of_weights_is_rounded_down_but_never_none(keep, count):
    weight = parameter([[1.0, 2.0, 3.0, 4.0, 5.0]], [[1.0] * 5])
    mask_gradients([weight], torch.tensor(keep, dtype=torch.float64))
    assert (weight.grad != 0).sum() == count


def test_weights_of_equal_importance_stay_together():
    weight = parameter([[1.0, 1.0, 1.0, 0.5]], [[1.0] * 4])
    mask_gradients([weight], torch.tensor(0.5, dtype=torch.float64))
    assert weight.grad.tolist() == [[0.5, 0.5, 0.5, 0.0]]


def test_a_weight_without_a_gradient_does_not_count():
    idle, weight = nn.Parameter(torch.ones(3, 3)), parameter([[1.0, 2.0]], [[1.0, 1.0]])
    mask_gradients([idle, weight], torch.tensor(0.5, dtype=torch.float64))
    assert idle.grad is None
    assert weight.grad.tolist() == [[0.0, 0.5]]


def test_any_memory_format_gives_the_same_gradients():
    generator = torch.Generator().manual_seed(0)
    values, gradient = (torch.randn(4, 3, 2, 2, generator=generator) for _ in range(2))
    found = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        weight = nn.Parameter(values.clone(memory_format=memory_format))
        weight.grad = gradient.clone(memory_format=memory_format)
        mask_gradients([weight, parameter([[1.0, 2.0]], [[0.3, 0.1]])], torch.tensor(0.6, dtype=torch.float64))
        found.append(weight.grad)
    assert torch.equal(*found)
    assert 0 < (found[0] != 0).sum() < 48


def test_biases_and_normalisation_keep_their_gradient():
    problem = blobs()
    method = build("cdr", setup_for(problem, batchnorm=True), gradual_epochs=1)
    assert [tuple(weight.shape) for weight in method.weights] == [(32, 2), (4, 32)]
    before = [p.detach().clone() for p in method.network.parameters()]
    plain = build("standard", setup_for(problem, batchnorm=True))
    for one in (method, plain):
        one.begin_epoch(Clock(epoch=1, epochs=8))
        one.step(batches(problem, 1)[0], Clock(epoch=1, epochs=8))
    count = 0
    for old, found, expected in zip(before, method.network.parameters(), plain.network.parameters(), strict=True):
        if old.ndim == 1:
            assert torch.equal(found, expected)
        else:
            # The first step: all weights decay by lr·weight_decay, seven in ten also follow 0.7 times the gradient.
            followed = ~torch.isclose(found, old * (1 - 0.1 * 1e-3), rtol=1e-6, atol=1e-8)
            count += followed.sum().item()
            change, full_change = found - old * (1 - 1e-4), expected - old * (1 - 1e-4)
            torch.testing.assert_close(change[followed], 0.7 * full_change[followed], rtol=1e-3, atol=1e-6)
    assert count == 134  # ⌊0.7·(64 + 128)⌋


def test_with_a_noise_rate_of_zero_it_is_plain_training():
    problem = blobs()
    method, plain = build("cdr", setup_for(problem, noise_rate=0.0)), build("standard", setup_for(problem))
    train(method, problem, 3)
    train(plain, problem, 3)
    assert same(weights(method), weights(plain))


def test_the_share_applies_at_once_or_rises_gradually():
    shares = {}
    for gradual in (1, 3):
        method = build("cdr", setup_for(blobs(), noise_rate=0.4), gradual_epochs=gradual)
        shares[gradual] = []
        for epoch in (1, 2, 3, 4):
            method.begin_epoch(Clock(epoch=epoch, epochs=8))
            shares[gradual].append(method.keep.item())
    assert shares[1] == pytest.approx([0.6, 0.6, 0.6, 0.6])
    assert shares[3] == pytest.approx([1.0, 0.8, 0.6, 0.6])
