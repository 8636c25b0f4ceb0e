import torch
from torch.nn import functional as F

from tests.methods.problems import blobs, setup_for
from tnlpad.methods.decomposable import Learner, any_nonzero
from tnlpad.methods.forward import gradient_step
from tnlpad.methods.tnlpad import TnlpadConfig


def learner(config=None, **changes):
    setup = setup_for(blobs(), **changes)
    return Learner(setup.network(0), setup, config, None if config is None else config.gamma_penalty(8))


def descend(which, steps=3):
    problem = blobs()
    which.begin_epoch()
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(which.network(problem.points), problem.given)
        losses.append(gradient_step(which.optimizer, loss))
    return losses


def test_without_a_decomposition_sigma_is_w():
    plain = learner()
    descend(plain)
    assert plain.optimizer is plain.plain
    assert plain.parts() == {}
    assert not plain.has_gamma()
    before = plain.network[0].weight.clone()
    with plain.using("sigma") as network:
        assert torch.equal(network[0].weight, before)
    plain.drop_gamma()
    plain.restart_decomposition()
    assert torch.equal(plain.network[0].weight, before)


def test_dropping_gamma_leaves_sigma_and_its_momentum():
    decomposed = learner(TnlpadConfig(), batchnorm=True)
    descend(decomposed)
    assert decomposed.has_gamma()
    parts, base = decomposed.parts(), decomposed.decomposition.base
    sigma = {weight: own["sigma"].clone() for weight, own in parts.items()}
    momentum = {weight: base.state[own["sigma"]]["momentum_buffer"].clone() for weight, own in parts.items()}
    decomposed.drop_gamma()
    assert decomposed.optimizer is decomposed.plain
    assert not decomposed.has_gamma()
    for weight in sigma:
        assert torch.equal(weight, sigma[weight])
        assert torch.equal(decomposed.plain.state[weight]["momentum_buffer"], momentum[weight])
    scale = decomposed.network[1].weight  # of BatchNorm, never decomposed
    assert torch.equal(decomposed.plain.state[scale]["momentum_buffer"], base.state[scale]["momentum_buffer"])
    descend(decomposed)
    assert not torch.equal(decomposed.network[0].weight, sigma[decomposed.network[0].weight])


def test_dropping_gamma_where_there_is_no_momentum():
    decomposed = learner(TnlpadConfig(), sgd={"lr": 0.1})
    descend(decomposed)
    decomposed.reset_momentum()
    decomposed.drop_gamma()
    sigma = [own["sigma"].clone() for own in decomposed.decomposition.state.values()]
    assert all(map(torch.equal, decomposed.network.parameters(), sigma))
    descend(decomposed)
    assert not any(map(torch.equal, decomposed.network.parameters(), sigma))


def test_an_epoch_is_trained_in_training_mode():
    """Even if the network was evaluated in between."""
    for config in (None, TnlpadConfig()):
        one = learner(config, batchnorm=True)
        one.network.eval()
        one.begin_epoch()
        assert all(layer.training for layer in one.network.modules())


def test_restarting_the_decomposition():
    decomposed = learner(TnlpadConfig())
    descend(decomposed)
    descend(decomposed)
    sigma = [own["sigma"].clone() for own in decomposed.parts().values()]
    assert decomposed.optimizer.epoch == 2
    decomposed.restart_decomposition()
    assert not decomposed.has_gamma()
    assert all(torch.equal(weight, own) for weight, own in zip(decomposed.parts(), sigma, strict=True))
    descend(decomposed, 1)
    assert decomposed.optimizer.epoch == 1


def test_resetting_momentum():
    """In place: the next step equals the first step of a new optimizer."""
    for config in (None, TnlpadConfig(init="zero")):
        used, fresh = learner(config), learner(config)
        descend(used)
        addresses = [id(entries["momentum_buffer"]) for entries in states(used)]
        with torch.no_grad():
            for mine, theirs in zip(used.tensors(), fresh.tensors(), strict=True):
                mine.copy_(theirs)
        if config is not None:
            used.optimizer.epoch = 0
        used.reset_momentum()
        assert torch.equal(descend(used, 2)[1], descend(fresh, 2)[1])
        assert [id(entries["momentum_buffer"]) for entries in states(used)] == addresses


def states(which):
    return getattr(which.optimizer, "base", which.optimizer).state.values()


def test_any_nonzero():
    assert not any_nonzero([])
    assert not any_nonzero([torch.zeros(2), torch.zeros(3)])
    assert any_nonzero([torch.zeros(2), torch.tensor([0.0, -1.0])])
