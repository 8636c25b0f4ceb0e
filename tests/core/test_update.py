import pytest
import torch
from torch import nn

from tnlpad import Decomposition


def test_norms():
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Decomposition([weight], torch.optim.SGD, lr=1.0, sigma_penalty=None, gamma_penalty=None)
    optimizer.start_epoch()
    weight.grad = torch.tensor([0.6, 0.8])
    optimizer.step()
    values = {name: value.item() for name, value in optimizer.norms().items()}
    assert values == pytest.approx({"sigma": 4.0, "gamma": 1.0, "drift": 1.0})


def test_the_averaged_gradient_is_that_of_the_momentum():
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Decomposition([weight], torch.optim.SGD, lr=0.1, momentum=0.5, sigma_penalty=None, gamma_penalty=None)
    optimizer.start_epoch()
    assert "averaged_gradient" not in optimizer.norms()
    for gradient in ([4.0, 0.0], [0.0, 2.0]):
        weight.grad = torch.tensor(gradient)
        optimizer.step()
    # The momentum is 0.5·(4, 0) + (0, 2) = (2, 2), half of it (1, 1).
    assert optimizer.norms()["averaged_gradient"].item() == pytest.approx(2**0.5)
