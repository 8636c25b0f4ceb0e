import math
import re
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from tests.methods.problems import Points, batches, blobs, build, noisy_accuracy, perceptron, same, setup_for, train
from tests.methods.semi_supervised import HELD, assert_it_resumes, held_at_zero, watched
from tnlpad.methods import self_ensemble as module
from tnlpad.methods.decomposable import Learner
from tnlpad.methods.forward import gradient_step
from tnlpad.methods.protocol import chosen_by, schedule_epoch
from tnlpad.methods.self_ensemble import (
    MeanTeacher,
    Progress,
    SelfConfig,
    SelfEnsemble,
    SelfTnlpadConfig,
    agreeing,
    consistency,
    iteration_lengths,
    ramp_up,
)
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.types import Clock

SHORT = {"iterations": 3, "first_share": 0.4, "ema_decay": 0.9, "consistency_rampup": 2}


@pytest.mark.parametrize("who", ["teacher", "student"])
@pytest.mark.parametrize("wiring", [{}, {"filter_with": "w"}, {"decompose": "first"}, {"restart_decomposition": True}])
def test_with_gamma_held_at_zero_it_is_the_plain_method(wiring, who):
    """Bit for bit, through two filters."""
    problem, short = blobs(), {**SHORT, "predict_with": who}
    setups = [setup_for(problem, batchnorm=True) for _ in range(2)]
    plain = SelfEnsemble(SelfConfig(**short), setups[0])
    held = SelfEnsemble(held_at_zero(SelfTnlpadConfig)(**short, **HELD, **wiring), setups[1])
    assert train(plain, problem, 8) == train(held, problem, 8)
    assert plain.progress == held.progress
    assert plain.progress.iteration > 0
    assert not held.student.has_gamma()
    assert same(list(plain.student.network.state_dict().values()), list(held.student.network.state_dict().values()))
    assert same(list(plain.teacher.network.state_dict().values()), list(held.teacher.network.state_dict().values()))
    assert torch.equal(plain.ensemble, held.ensemble)
    assert torch.equal(plain.selections["labelled"], held.selections["labelled"])


def test_the_filter():
    """Labels that agree with the ensemble's class; its rows need not sum to 1."""
    ensemble = torch.tensor([[0.3, 0.1], [0.1, 0.2], [0.0, 0.4]])
    assert agreeing(ensemble, torch.tensor([0, 0, 1])).tolist() == [True, False, True]
    assert agreeing(ensemble, torch.tensor([1, 0, 0])).tolist() == [True] * 3


def test_the_lengths_of_the_iterations():
    assert iteration_lengths(SelfConfig(), 220) == (100, 40)
    assert iteration_lengths(SelfConfig(), 60) == (27, 11)
    assert iteration_lengths(SelfConfig(iterations=1), 60) == (27, 33)
    assert iteration_lengths(SelfConfig(), 1) == (1, 1)
    assert iteration_lengths(SelfConfig(first_share=0.01), 10) == (1, 3)


def one_epoch(method, problem, epoch, accuracy):
    clock = Clock(epoch=epoch, epochs=8)
    method.begin_epoch(clock)
    for batch in batches(problem, epoch):
        method.step(batch, clock)
    method.end_epoch(accuracy)


def test_the_ensemble_is_a_moving_average_of_the_teachers_predictions():
    problem = blobs()
    method = build("self", setup_for(problem))
    expected = torch.zeros(256, 4)
    for epoch in (1, 2):
        one_epoch(method, problem, epoch, 0.5)
        predicted = Points(problem.points).outputs(method.teacher.network).softmax(1)
        expected = 0.9 * expected + 0.1 * predicted
        torch.testing.assert_close(method.ensemble, expected)


def test_an_iteration_ends_after_its_epochs_and_starts_from_the_best():
    """Three epochs, of which the second is the best; then labels are filtered by its ensemble."""
    problem = blobs()
    method = build("self", setup_for(problem))
    kept = None
    for epoch, accuracy in enumerate((0.5, 0.7, 0.6), start=1):
        assert method.selections["labelled"].all()
        one_epoch(method, problem, epoch, accuracy)
        if epoch == 2:
            kept = [tensor.clone() for tensor in method._model()]
    assert method.progress.ended
    assert not method.finished
    assert schedule_epoch(method, Clock(epoch=3, epochs=8)) == 3
    method.begin_epoch(Clock(epoch=4, epochs=8))
    assert (method.progress.iteration, method.progress.epoch, method.progress.previous_best) == (1, 1, 0.7)
    assert same(method._model(), kept)
    expected = kept[-1].argmax(1) == problem.given
    assert torch.equal(method.selections["labelled"], expected)
    assert 100 < expected.sum() < 256
    assert set(method.rows.table[:, 0].tolist()) == set(expected.nonzero().flatten().tolist())
    momentum = [entries["momentum_buffer"] for entries in method.student.optimizer.state.values()]
    assert not any(buffer.any() for buffer in momentum)
    # Two epochs instead of three: the schedule runs faster.
    assert schedule_epoch(method, Clock(epoch=4, epochs=8)) == 2


def test_the_whole_best_model_is_restored():
    """Student and teacher, weights and their parts, and BatchNorm's statistics of both."""
    problem = blobs()
    method = build("self+tnlpad", setup_for(problem, batchnorm=True))

    def model():
        parts = [own[part] for own in method.student.parts().values() for part in ("sigma", "gamma")]
        networks = [method.student.network, method.teacher.network]
        values = [value for network in networks for value in network.state_dict().values()]
        return [value.clone() for value in (*values, *parts, *method.teacher.sigma)]

    for epoch, accuracy in enumerate((0.5, 0.7, 0.6), start=1):
        one_epoch(method, problem, epoch, accuracy)
        if epoch == 2:
            best = model()
    assert not any(torch.equal(now, then) for now, then in zip(model(), best, strict=True))
    method.begin_epoch(Clock(epoch=4, epochs=8))
    assert method.progress.iteration == 1
    assert same(model(), best)


@pytest.mark.parametrize("wiring", [{}, {"decompose": "first"}])
def test_the_best_model_of_a_later_iteration_is_restored_too(wiring):
    """A decomposition that ended with the first iteration leaves no trace in the third."""
    problem = blobs()
    method = build("self+tnlpad", setup_for(problem, batchnorm=True), **wiring)
    networks = [method.student.network, method.teacher.network]
    for epoch, accuracy in enumerate((0.5, 0.6, 0.55, 0.8, 0.7), start=1):
        one_epoch(method, problem, epoch, accuracy)
        if epoch == 4:
            best = [value.clone() for network in networks for value in network.state_dict().values()]
    method.begin_epoch(Clock(epoch=6, epochs=8))
    assert method.progress.iteration == 2
    assert same([value for network in networks for value in network.state_dict().values()], best)


def test_the_consistency_weight_rises_from_epoch_to_epoch():
    """exp(−5·(1 − j/4)²) in the epochs j = 0, 1, 2, … of every iteration, at a weight of 10."""
    problem = blobs()
    method = build("self", setup_for(problem), consistency_rampup=4)
    for epoch, j in enumerate((0, 1, 2, 0, 1), start=1):
        one_epoch(method, problem, epoch, 0.1 * epoch)
        assert method.weight.item() == pytest.approx(10 * math.exp(-5 * (1 - j / 4) ** 2))


def test_forward_passes_and_their_modes():
    """The teacher in training mode as well, whose BatchNorm statistics are its own."""
    problem = blobs()
    method = build("self", setup_for(problem, batchnorm=True))
    asked = watched({"teacher": method.teacher.network, "student": method.student.network})
    for epoch in (1, 2):
        for network in (method.teacher.network, method.student.network):
            network.eval()  # as after an evaluation
        asked.clear()
        one_epoch(method, problem, epoch, 0.1 * epoch)
        assert asked[:-1] == 8 * [("teacher", True, False, 64), ("student", True, True, 64)]
        assert asked[-1] == ("teacher", False, False, 256)  # for the ensemble


def test_held_out_samples_are_not_used():
    problem = blobs()
    index = torch.randperm(256, generator=torch.Generator().manual_seed(0))[:100]
    held_out = torch.ones(256, dtype=torch.bool).index_fill(0, index, False)
    method = build("self", setup_for(problem, source=lambda: Points(problem.points, index)))
    assert method.selections["labelled"].equal(~held_out)
    method.progress = Progress(epoch=3, best=0.5, ended=True)
    method.best_model[-1].copy_(F.one_hot(problem.given[index], 4))
    method.best_model[-1][:30] = 0.25
    method.begin_epoch(Clock(epoch=4, epochs=8))
    expected = torch.zeros(256, dtype=torch.bool).index_fill(0, index[30:], True)
    expected[index[:30]] = problem.given[index[:30]] == 0  # argmax of equal values is the first class
    assert method.selections["labelled"].equal(expected)
    assert len(method.rows.table) == 100
    assert set(method.rows.table[:, 0].tolist()) == set(expected.nonzero().flatten().tolist())


def test_filtered_labels_may_return():
    """Always filtered from all given labels, not from the last filter's."""
    problem = blobs()
    method = build("self", setup_for(problem))
    method.selections["labelled"].zero_()
    method.selections["labelled"][:8] = True
    method.progress = Progress(epoch=3, best=0.5, ended=True)
    method.best_model[-1].copy_(F.one_hot(problem.given, 4))
    method.begin_epoch(Clock(epoch=4, epochs=8))
    assert method.selections["labelled"].all()


def test_an_iteration_ends_when_patience_runs_out():
    problem = blobs()
    method = build("self", setup_for(problem, epochs=100), iteration_patience=2)
    for epoch, accuracy in enumerate((0.5, 0.7, 0.6), start=1):
        one_epoch(method, problem, epoch, accuracy)
        assert not method.progress.ended
    one_epoch(method, problem, 4, 0.7)  # equal to the best
    assert method.progress.ended


def test_training_ends_when_patience_runs_out_in_the_last_iteration():
    problem = blobs()
    method = build("self", setup_for(problem, epochs=100), iterations=1, iteration_patience=2)
    for epoch, accuracy in enumerate((0.5, 0.4, 0.3), start=1):
        assert not method.finished
        one_epoch(method, problem, epoch, accuracy)
    assert method.finished


@pytest.mark.parametrize(("accuracy", "finished"), [(0.6, True), (0.5, True), (0.65, False)])
def test_training_ends_after_an_iteration_without_improvement(accuracy, finished):
    problem = blobs()
    method = build("self", setup_for(problem))
    for epoch, value in enumerate((0.5, 0.6, 0.6, accuracy, 0.1), start=1):
        assert not method.finished
        one_epoch(method, problem, epoch, value)
    assert method.finished == finished


def test_the_last_iteration_has_the_rest_of_the_run():
    problem = blobs()
    method = build("self", setup_for(problem), iterations=1)
    for epoch in range(1, 8):
        one_epoch(method, problem, epoch, 0.1 * epoch)
    assert (method.progress.iteration, method.progress.epoch, method.progress.ended) == (0, 7, False)


def test_without_consistency_only_labelled_samples_are_learnt():
    """Sample 5 is the only labelled one: the gradient of the logits' bias is p − y of it."""
    problem = blobs()
    method = build("self", setup_for(problem), consistency_weight=0.0)
    method.begin_epoch(Clock(epoch=1, epochs=8))
    method.rows.table.zero_()  # no augmentation
    method.rows.table[:, 0] = 5
    expected = method.student.network(problem.points[5:6]).softmax(1)[0] - F.one_hot(problem.given[5], 4)
    method.step(batches(problem, 1)[0], Clock(epoch=1, epochs=8))
    torch.testing.assert_close(method.student.network[2].bias.grad, expected)


def test_the_loss_by_hand():
    """Two labelled samples and the two of the batch; the teacher sees its own views of all four."""
    problem = blobs()
    method = build("self", setup_for(problem), consistency_weight=7.0, consistency_rampup=0)
    method.begin_epoch(Clock(epoch=1, epochs=8))
    with torch.no_grad():
        method.teacher.network[0].weight.mul_(0.5)  # a teacher that differs from the student
    batch, rows = batches(problem, 1, size=2)[0], method.rows.table[:2].clone()
    labelled = rows[:, 0]
    seen = torch.cat([problem.points[labelled] + rows[:, 1:3] / 50, batch.images])
    by_teacher = torch.cat([problem.points[labelled] + rows[:, 3:5] / 50, batch.images + rows[:, 5:7] / 50])
    logits = method.student.network(seen)
    targets = method.teacher.network(by_teacher).softmax(1)
    fit = -sum(logits.log_softmax(1)[k, problem.given[labelled[k]]] for k in range(2)) / 2
    apart = ((logits.softmax(1) - targets) ** 2).sum() / (4 * 4)
    loss = method.step(batch, Clock(epoch=1, epochs=8))
    assert loss.item() == pytest.approx((fit + 7 * apart).item(), rel=1e-5)


def test_judged_networks():
    problem = blobs()
    assert list(build("self", setup_for(problem)).judged) == ["teacher", "student"]
    student = build("self", setup_for(problem), predict_with="student")
    assert list(student.judged) == ["student", "teacher"]
    with student.judged["student"]() as network:
        assert network is student.student.network
    assert list(build("self+tnlpad", setup_for(problem)).judged) == ["sigma", "w"]
    by_w = build("self+tnlpad", setup_for(problem), judge_by="w")
    assert (list(by_w.judged), by_w.reported) == (["w", "sigma"], ("w",))  # the first is the one to ship
    by_student = build("self+tnlpad", setup_for(problem, batchnorm=True), predict_with="student")
    train(by_student, problem, 2)
    sigma = [own["sigma"] for own in by_student.student.parts().values()]
    statistics = by_student.student.network[1].running_mean.clone()
    with by_student.judged["sigma"]() as network:
        assert network is by_student.student.network
        assert torch.equal(network[0].weight, sigma[0])
        assert not torch.equal(network[1].running_mean, statistics)  # those of σ
    with by_student.judged["w"]() as network:
        assert not torch.equal(network[0].weight, sigma[0])
        assert torch.equal(network[1].running_mean, statistics)


def test_w_may_choose_the_epoch_for_sigma():
    """As in the paper's authors' code."""
    by_w = build("self+tnlpad", setup_for(blobs()), judge_by="sigma_chosen_by_w")
    assert list(by_w.judged) == ["sigma", "w"]
    assert list(by_w.reported) == ["sigma"]
    assert list(chosen_by(by_w)) == ["w"]
    for name, who in (("self", "teacher"), ("self+tnlpad", "sigma")):
        assert list(chosen_by(build(name, setup_for(blobs())))) == [who]


@pytest.mark.parametrize("part", ["sigma", "w"])
def test_the_filter_uses_sigma_or_w(part):
    problem = blobs()
    method = build("self+tnlpad", setup_for(problem), filter_with=part, ensemble_momentum=0.0)
    train(method, problem, 1)
    predicted = {}
    for name, view in method.judged.items():
        with view() as network:
            predicted[name] = Points(problem.points).outputs(network).softmax(1)
    assert torch.equal(method.ensemble, predicted[part])
    assert not torch.equal(predicted["sigma"], predicted["w"])


def test_where_the_decomposition_is_active():
    problem = blobs()
    always, first, anew = (
        build("self+tnlpad", setup_for(problem), **wiring)
        for wiring in ({}, {"decompose": "first"}, {"restart_decomposition": True})
    )
    for method in (always, first, anew):
        train(method, problem, 3)
        assert method.phase == "decomposed"
        method.begin_epoch(Clock(epoch=4, epochs=8))
        assert method.progress.iteration == 1
    assert always.student.has_gamma()
    assert always.teacher.has_gamma()
    for method in (first, anew):
        assert not method.teacher.has_gamma()
        assert all(map(torch.equal, method.teacher.decomposed, method.teacher.sigma))
    assert always.student.optimizer.epoch == 4
    assert first.phase == "plain"
    assert first.optimizers == [first.student.plain]
    assert anew.phase == "decomposed"
    assert not anew.student.has_gamma()
    assert anew.student.optimizer.epoch == 1


@pytest.mark.parametrize("wiring", [{"decompose": "first"}, {"restart_decomposition": True}])
@pytest.mark.parametrize("after", [2, 3, 5])
def test_it_resumes_bit_for_bit_in_any_phase(wiring, after):
    make = partial(build, "self+tnlpad", **wiring)
    assert_it_resumes(make, blobs(), after=after, last=8, from_epoch=6)  # from a later phase back into an earlier one


def test_it_filters_wrong_labels():
    problem = blobs(samples=600, noise_rate=0.4)
    method = build("self", setup_for(problem, sgd={"lr": 0.05, "momentum": 0.9}))
    train(method, problem, 5)
    labelled, right = method.selections["labelled"], problem.given == problem.clean
    assert (right & labelled).sum() / labelled.sum() > 0.9 > 0.65 > right.double().mean()
    assert (right & labelled).sum() / right.sum() > 0.9
    assert 0.5 < noisy_accuracy(method, problem) < 0.7


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"iterations": 0}, "iterations=0: must be at least 1"),
        ({"iteration_patience": 0}, "iteration_patience=0: must be at least 1"),
        ({"first_share": 0.0}, r"first_share=0.0: must lie in \(0, 1\]"),
        ({"ensemble_momentum": 1.0}, r"ensemble_momentum=1.0: must lie in \[0, 1\)"),
        ({"consistency_weight": -1.0}, "consistency_weight=-1.0: must be >= 0"),
        ({"consistency_rampup": -1}, "consistency_rampup=-1: must be >= 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        build("self", setup_for(blobs()), **setting)


def test_restart_and_first_only_are_exclusive():
    with pytest.raises(ValueError, match=r'restart_decomposition=True with decompose="first"'):
        build("self+tnlpad", setup_for(blobs()), decompose="first", restart_decomposition=True)


@pytest.mark.parametrize("name", ["self", "self+tnlpad"])
def test_images_in_files_are_refused(name):
    with pytest.raises(ValueError, match=rf"^{re.escape(name)} .* must be in memory"):
        build(name, setup_for(blobs(), source=None))


def pair(config=None, decay=0.9, **changes):
    """A student and its teacher, in double precision."""
    setup = setup_for(blobs(), dtype=torch.float64, **changes)
    penalty = None if config is None else config.gamma_penalty(8)
    student = Learner(setup.network(0), setup, config, penalty)
    return student, MeanTeacher(setup.network(0), student, decay)


def descend(student, steps, teacher=None):
    problem = blobs()
    student.begin_epoch()
    for _ in range(steps):
        logits = student.network(problem.points.double())
        gradient_step(student.optimizer, torch.nn.functional.cross_entropy(logits, problem.given))
        if teacher is not None:
            teacher.update()


def test_the_ramp_up():
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


def test_the_teacher_starts_as_the_student_and_follows():
    """1 − a is 1/2, 1/3 and, from 1/10 on, 1 − decay: by hand for one weight."""
    student, teacher = pair(decay=0.6)
    weight, mine = student.network[0].weight, teacher.network[0].weight
    assert torch.equal(weight, mine)
    expected = mine[0, 0].item()
    for share in (1 / 2, 0.4, 0.4):
        with torch.no_grad():
            weight[0, 0] += 1
        teacher.update()
        expected += share * (weight[0, 0].item() - expected)
        assert mine[0, 0].item() == pytest.approx(expected)


def test_without_decay_the_teacher_is_the_student():
    student, teacher = pair(decay=0)
    descend(student, 1, teacher)
    for mine, theirs in zip(teacher.network.parameters(), student.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert not mine.requires_grad


def test_the_teacher_starts_as_a_decomposed_student():
    """Its weights are σ + γ, not the initial weights of its network."""
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
        teacher.update()
        torch.testing.assert_close(teacher.network[0].weight, before * left)
        assert teacher.steps.item() == step


def test_the_teacher_has_its_own_statistics():
    student, teacher = pair(batchnorm=True)
    before = teacher.network[1].running_mean.clone()
    descend(student, 3, teacher)
    assert torch.equal(teacher.network[1].running_mean, before)
    assert not torch.equal(student.network[1].running_mean, before)


def test_the_averages_of_the_parts_add_up_to_that_of_w():
    """EMA(σ) + EMA(γ) = EMA(w), compared with a teacher that averages w."""
    student, teacher = pair(TnlpadConfig())
    twin = perceptron(0, 4, dtype=torch.float64)
    twin.load_state_dict(student.network.state_dict())
    gammas = [own["gamma"].clone() for own in student.parts().values()]
    problem = blobs()
    student.begin_epoch()
    for step in range(1, 30):
        loss = torch.nn.functional.cross_entropy(student.network(problem.points.double()), problem.given)
        gradient_step(student.optimizer, loss)
        teacher.update()
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


def test_the_teacher_uses_sigma_within_the_block_and_w_afterwards():
    student, teacher = pair(TnlpadConfig(), batchnorm=True)
    source = Points(blobs().points.double())
    descend(student, 3, teacher)
    held = [value.clone() for value in teacher.network.state_dict().values()]
    with teacher.using("sigma", source) as network:
        assert all(map(torch.equal, teacher.decomposed, teacher.sigma))
        assert not torch.equal(network[1].running_mean, held[4])
    with teacher.using("w", source) as network:
        assert network is teacher.network
    assert all(torch.equal(a, b) for a, b in zip(held, teacher.network.state_dict().values(), strict=True))
    with pytest.raises(ZeroDivisionError), teacher.using("sigma", source):
        raise ZeroDivisionError
    assert all(torch.equal(a, b) for a, b in zip(held, teacher.network.state_dict().values(), strict=True))


def test_a_compiled_teacher_follows_in_one_graph(monkeypatch):
    graphs, asked = [], []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(module._average, dynamic=False, backend=backend, fullgraph=True)
    monkeypatch.setattr(module, "_compiled_average", lambda: asked.append(compiled) or compiled)
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
