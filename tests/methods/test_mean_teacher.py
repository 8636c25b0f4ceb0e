import math

import pytest
import torch

from tests.methods.problems import Points, blobs, perceptron, setup_for
from tnlpad.methods import mean_teacher as module
from tnlpad.methods.mean_teacher import MeanTeacher, consistency, ramp_up
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.methods.trainee import Trainee


def pair(config=None, decay=0.9, **changes):
    """A student and its teacher, in double precision."""
    setup = setup_for(blobs(), dtype=torch.float64, **changes)
    penalty = None if config is None else config.gamma_penalty(8)
    student = Trainee(setup.network(0), setup, config, penalty)
    return student, MeanTeacher(setup.network(0), student, decay)


def descend(student, steps, teacher=None):
    problem = blobs()
    student.begin_epoch()
    for _ in range(steps):
        logits = student.network(problem.points.double())
        student.descend(torch.nn.functional.cross_entropy(logits, problem.given))
        if teacher is not None:
            teacher.follow()


def test_the_ramp():
    assert ramp_up(0, 5) == pytest.approx(math.exp(-5))
    assert ramp_up(2.5, 5) == pytest.approx(math.exp(-1.25))
    assert ramp_up(0, 1) == pytest.approx(math.exp(-5))
    assert ramp_up(5, 5) == ramp_up(9, 5) == ramp_up(0, 0) == 1


def test_consistency():
    """p = (3/4, 1/4) against (1/2, 1/2): both classes 1/4 apart."""
    student, teacher = torch.tensor([[math.log(3), 0.0]]), torch.tensor([[1.0, 1.0]])
    assert consistency(student, teacher).item() == pytest.approx(0.25**2)


def test_consistency_of_reduced_precision_is_taken_in_single():
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(8, 4, generator=generator).bfloat16() for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        found = consistency(*logits)
    assert torch.equal(found, consistency(*(each.float() for each in logits)))


def test_it_starts_as_the_student_and_follows():
    """1 − a is 1/2, 1/3 and, from 1/10 on, 1 − decay: by hand for one weight."""
    student, teacher = pair(decay=0.6)
    weight, mine = student.network[0].weight, teacher.network[0].weight
    assert torch.equal(weight, mine)
    expected = mine[0, 0].item()
    for share in (1 / 2, 0.4, 0.4):
        with torch.no_grad():
            weight[0, 0] += 1
        teacher.follow()
        expected += share * (weight[0, 0].item() - expected)
        assert mine[0, 0].item() == pytest.approx(expected)


def test_without_decay_it_is_the_student():
    student, teacher = pair(decay=0)
    descend(student, 1, teacher)
    for mine, theirs in zip(teacher.network.parameters(), student.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert not mine.requires_grad


def test_it_starts_as_a_decomposed_student():
    """Whose weight is not the one that its network was made with, but σ + γ."""
    student, teacher = pair(TnlpadConfig())
    assert student.has_gamma()
    for mine, theirs in zip(teacher.network.parameters(), student.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_early_steps_count_more():
    student, teacher = pair(decay=0.999)
    with torch.no_grad():
        student.network[0].weight.zero_()
    before = teacher.network[0].weight.clone()
    for step, left in ((1, 1 / 2), (2, 1 / 2 * 2 / 3), (3, 1 / 2 * 2 / 3 * 3 / 4)):
        teacher.follow()
        torch.testing.assert_close(teacher.network[0].weight, before * left)
        assert teacher.steps.item() == step


def test_statistics_are_its_own():
    student, teacher = pair(batchnorm=True)
    before = teacher.network[1].running_mean.clone()
    descend(student, 3, teacher)
    assert torch.equal(teacher.network[1].running_mean, before)
    assert not torch.equal(student.network[1].running_mean, before)


def test_the_averages_of_the_parts_add_up_to_that_of_w():
    """EMA(σ) + EMA(γ) = EMA(w), beside a teacher that averages w itself."""
    student, teacher = pair(TnlpadConfig())
    twin = perceptron(0, 4, dtype=torch.float64)
    twin.load_state_dict(student.network.state_dict())
    gammas = [own["gamma"].clone() for own in student.parts().values()]
    problem = blobs()
    student.begin_epoch()
    for step in range(1, 30):
        loss = torch.nn.functional.cross_entropy(student.network(problem.points.double()), problem.given)
        student.descend(loss)
        teacher.follow()
        share = torch.tensor(max(1 / (step + 1), 1 - 0.9)).item()  # in the single precision of the counter
        with torch.no_grad():
            for mine, theirs in zip(twin.parameters(), student.network.parameters(), strict=True):
                mine.lerp_(theirs, share)
            for mine, own in zip(gammas, student.parts().values(), strict=True):
                mine.lerp_(own["gamma"], share)
    assert student.has_gamma()
    assert all(gamma.any() for gamma in gammas)
    for weight, sigma, gamma in zip(teacher.decomposed, teacher.sigma, gammas, strict=True):
        torch.testing.assert_close(weight, sigma + gamma, rtol=1e-12, atol=1e-13)
    for mine, expected in zip(teacher.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-13)


def test_it_holds_sigma_within_the_block_and_w_afterwards():
    student, teacher = pair(TnlpadConfig(), batchnorm=True)
    source = Points(blobs().points.double())
    descend(student, 3, teacher)
    held = [value.clone() for value in teacher.network.state_dict().values()]
    with teacher.holding("sigma", source) as network:
        assert all(map(torch.equal, teacher.decomposed, teacher.sigma))
        assert not torch.equal(network[1].running_mean, held[4])
    with teacher.holding("w", source) as network:
        assert network is teacher.network
    assert all(torch.equal(a, b) for a, b in zip(held, teacher.network.state_dict().values(), strict=True))
    with pytest.raises(ZeroDivisionError), teacher.holding("sigma", source):
        raise ZeroDivisionError
    assert all(torch.equal(a, b) for a, b in zip(held, teacher.network.state_dict().values(), strict=True))


def test_a_compiled_teacher_follows_in_one_graph(monkeypatch):
    graphs, asked = [], []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(module._approach, dynamic=False, backend=backend, fullgraph=True)
    monkeypatch.setattr(module, "_compiled_approach", lambda: asked.append(compiled) or compiled)
    torch.compiler.reset()
    (student, teacher), (twin_student, twin) = pair(TnlpadConfig()), pair(TnlpadConfig())
    teacher.network.compile(backend="eager")
    descend(twin_student, 3, twin)  # eagerly
    assert not asked
    descend(student, 3, teacher)
    assert (len(graphs), len(asked)) == (1, 3)
    assert teacher.steps.item() == 3
    assert all(map(torch.equal, teacher.tensors(), twin.tensors()))


def test_a_teacher_that_never_learns_is_refused():
    with pytest.raises(ValueError, match=r"ema_decay=1: must lie in \[0, 1\)"):
        pair(decay=1)
