import copy

import pytest
import torch
from torch import nn

from tests.core.problems import batches, sgd, small_network, train
from tnlpad import reestimated_batchnorm


def images(count: int = 6) -> list[torch.Tensor]:
    return [x for x, _ in batches(count)]


def test_statistics_are_those_of_the_batches():
    model = small_network()
    with reestimated_batchnorm(model, images()):
        outputs = [model[0](x).transpose(0, 1).flatten(1) for x in images()]
        mean = torch.stack([o.mean(1) for o in outputs]).mean(0)
        var = torch.stack([o.var(1) for o in outputs]).mean(0)
        assert torch.allclose(model[1].running_mean, mean, atol=1e-12)
        assert torch.allclose(model[1].running_var, var, atol=1e-12)
        assert not any(module.training for module in model.modules())


@pytest.mark.parametrize("kind", [list, tuple])
def test_batches_may_have_labels(kind):
    model = small_network()
    with reestimated_batchnorm(model, images()):
        expected = model[1].running_mean.clone()
    with reestimated_batchnorm(model, map(kind, batches(6))):
        assert torch.equal(model[1].running_mean, expected)


def test_layers_that_keep_their_statistics_in_training_keep_them():
    class Fixed(nn.BatchNorm2d):
        def train(self, mode=True):
            return super().train(False)

    model = small_network()
    model.insert(3, Fixed(5).double())
    model.eval()
    fixed, estimated = model[3].running_mean.clone(), model[1].running_mean.clone()
    with reestimated_batchnorm(model, images()):
        assert torch.equal(model[3].running_mean, fixed)
        assert not torch.equal(model[1].running_mean, estimated)
    assert not any(module.training for module in model.modules())


def test_everything_is_restored_also_after_an_exception():
    model = small_network()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches(3))
    model[4].eval()
    state, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    with pytest.raises(KeyError), reestimated_batchnorm(model, images()):
        raise KeyError
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert [m.training for m in model.modules()] == modes
    assert model[1].momentum == 0.1


def test_with_sigma_the_output_no_longer_depends_on_the_scale_of_sigma():
    model = small_network()
    model[0].bias.data.zero_()
    optimizer = sgd(model, init="zero")
    model.eval()
    with optimizer.sigma_weights(), reestimated_batchnorm(model, images()):
        reference = model(images(1)[0])
    for name in ("weight", "bias"):
        optimizer.state[getattr(model[0], name)]["sigma"].mul_(3.0)
    with optimizer.sigma_weights():
        assert not torch.allclose(model(images(1)[0]), reference, atol=1e-3)
        with reestimated_batchnorm(model, images()):
            assert torch.allclose(model(images(1)[0]), reference, atol=1e-3)


def test_without_a_batch_it_raises_and_without_batchnorm_it_does_nothing():
    with pytest.raises(ValueError, match="`batches` is empty"), reestimated_batchnorm(small_network(), []):
        pass
    with reestimated_batchnorm(nn.Linear(2, 2), []):
        pass


class WithAuxiliaryHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.auxiliary = nn.BatchNorm2d(3).double(), nn.BatchNorm2d(3).double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.auxiliary(self.body(images)) if self.training else self.body(images)


def test_a_layer_that_only_training_uses_keeps_its_statistics():
    model = WithAuxiliaryHead()
    model(images(1)[0])
    before = model.auxiliary.running_mean.clone()
    with reestimated_batchnorm(model, images()):
        assert torch.equal(model.auxiliary.running_mean, before)
        assert not torch.equal(model.body.running_mean, before)
