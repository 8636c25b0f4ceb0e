import io
import math
from dataclasses import dataclass

import pytest
import torch
from torch.nn import functional as F

from tests.methods.problems import Points, batches, blobs, build, same, setup_for, train, weights
from tnlpad.core.penalties import Constant, PowerDecay
from tnlpad.methods.dividemix import (
    Dividemix,
    DividemixConfig,
    DividemixTnlpadConfig,
    Faster,
    SummedLogits,
)
from tnlpad.methods.gaussian_mixture import clean_probability, normalised
from tnlpad.types import Clock


@dataclass(frozen=True, kw_only=True)
class Held(DividemixTnlpadConfig):
    """γ held at 0."""

    def gamma_penalty(self, epochs):
        return Constant(math.inf)


SHORT = {"warmup_epochs": 2, "rampup_epochs": 2}
HELD = {"gamma_update": "proximal", "sigma_constraint": False, "init": "zero"}


def both(method):
    return list(method.both.state_dict().values())


@pytest.mark.parametrize("wiring", [{}, {"decompose_in": "all"}, {"decompose_in": "all", "guess_with": "w"}])
def test_with_gamma_held_at_zero_it_is_the_plain_method(wiring):
    """Bit for bit, warm-up and after."""
    problem = blobs()
    setups = [setup_for(problem, batchnorm=True) for _ in range(2)]
    plain = Dividemix(DividemixConfig(**SHORT), setups[0])
    held = Dividemix(Held(**SHORT, **HELD, **wiring), setups[1])
    assert train(plain, problem, 5) == train(held, problem, 5)
    assert same(both(plain), both(held))
    assert torch.equal(plain.clean, held.clean)
    assert held.trainees[0].decomposed == (wiring != {})


def test_decomposed_in_a_warm_up_of_length_0_it_is_the_plain_method():
    problem = blobs()
    plain, combined = (
        build(name, setup_for(problem, batchnorm=True), warmup_epochs=0) for name in ("dividemix", "dividemix+tnlpad")
    )
    assert train(plain, problem, 3) == train(combined, problem, 3)
    assert same(both(plain), both(combined))


def test_the_warm_up_is_plain_training_of_both():
    """Of the networks 0 and 1, each as Standard would."""
    problem = blobs()
    method = build("dividemix", setup_for(problem))
    train(method, problem, 2)
    for k, trainee in enumerate(method.trainees):
        standard = build("standard", setup_for(problem, network=lambda _, k=k: setup_for(problem).network(k)))
        train(standard, problem, 2)
        assert same(list(trainee.network.state_dict().values()), list(standard.network.state_dict().values()))
    assert method.phase == "warm-up"


def test_the_warm_up_may_hold_predictions_back():
    problem = blobs()
    confident, held_back = (
        build("dividemix", setup_for(problem), warmup_entropy=entropy, warmup_epochs=5) for entropy in (False, True)
    )
    for method in (confident, held_back):
        train(method, problem, 5)
    highest = [
        Points(problem.points).outputs(each.trainees[0].network).softmax(1).amax(1).mean()
        for each in (confident, held_back)
    ]
    assert highest[1] < highest[0] - 0.05


def mixing(setup, **settings):
    """A method at the start of its first epoch after the warm-up."""
    method = build("dividemix", setup, warmup_epochs=0, averaged_losses=1, **settings)
    method.begin_epoch(Clock(epoch=1, epochs=8))
    return method


def test_each_network_takes_the_split_of_the_other():
    problem = blobs()
    method = mixing(setup_for(problem))
    assert method.phase == "mixing"
    for k, trainee in enumerate(method.trainees):
        losses = F.cross_entropy(Points(problem.points).outputs(trainee.network), problem.given, reduction="none")
        expected = clean_probability(normalised(losses)).float()
        assert torch.equal(method.clean[k], expected)
        assert torch.equal(list(method.selections.values())[1 - k], expected > 0.5)
    first, second = method.selections.values()
    assert not torch.equal(first, second)
    # The tables hold: labelled and two views, unlabelled and two views, for the first network and for the second.
    table = method.rows.table
    for start, labelled in ((0, first), (10, second)):
        assert set(table[:, start].tolist()) <= set(labelled.nonzero().flatten().tolist())
        assert set(table[:, start + 5].tolist()) <= set((~labelled).nonzero().flatten().tolist())


def test_the_mean_of_some_epochs_losses():
    problem = blobs()
    method = build("dividemix", setup_for(problem), warmup_epochs=0, averaged_losses=3)
    seen = []
    for epoch in range(1, 5):
        outputs = Points(problem.points).outputs(method.trainees[0].network)
        seen.append(normalised(F.cross_entropy(outputs, problem.given, reduction="none")))
        train(method, problem, range(epoch, epoch + 1))
        expected = clean_probability(torch.stack(seen[-3:]).mean(0)).float()
        torch.testing.assert_close(method.clean[0], expected)


def test_the_mixing_weight_is_from_beta_and_at_least_a_half():
    """Beta(4, 4) has variance 1/36: |λ − ½| has mean 0.1367."""
    method = mixing(setup_for(blobs(samples=20_000)))
    weight = method.mixing.table[:, [4, 9]]
    assert weight.min() >= 0.5
    assert (weight - 0.5).mean().item() == pytest.approx(0.1367, abs=0.003)
    assert (weight - 0.5).square().mean().item() == pytest.approx(1 / 36, abs=0.001)


def by_hand(method, k, images, labelled, order, weight, lambda_u):
    """The loss of one network's step, row by row from the paper's words."""
    own, other = method.trainees[k].network, method.trainees[1 - k].network
    rows = len(images) // 4
    p_own, p_other = own(images).softmax(1), other(images).softmax(1)
    targets = []
    for row in range(rows):
        w, label = method.clean[1 - k][labelled[row]], method.labels[labelled[row]]
        p = w * F.one_hot(label, 4) + (1 - w) * (p_own[row] + p_own[rows + row]) / 2
        targets.append(p**2 / (p**2).sum())
    guesses = []
    for row in range(2 * rows, 3 * rows):
        p = (p_own[row] + p_own[rows + row] + p_other[row] + p_other[rows + row]) / 4
        guesses.append(p**2 / (p**2).sum())
    target = torch.stack([*targets, *targets, *guesses, *guesses]).detach()
    logits = own(weight * images + (1 - weight) * images[order])
    target = weight * target + (1 - weight) * target[order]
    p = logits.softmax(1)
    l_x = sum(-(target[row] * p[row].log()).sum() for row in range(2 * rows)) / (2 * rows)
    l_u = sum(((p[row] - target[row]) ** 2).sum() for row in range(2 * rows, 4 * rows)) / (2 * rows * 4)
    penalty = sum(0.25 * torch.log(0.25 / p[:, c].mean()) for c in range(4))
    return l_x + lambda_u * l_u + penalty


def test_a_step_by_hand():
    problem = blobs()
    method = mixing(setup_for(problem), rampup_epochs=4)
    method.epochs_mixed.fill_(2)
    batch = batches(problem, 1, size=6)[0]
    rows, mix = method.rows.table[:3].clone(), method.mixing.table[:3].clone()
    expected = []
    for k in range(2):
        own = rows[:, 10 * k : 10 * (k + 1)]
        views = [own[:, [0]], own[:, 1:3], own[:, 3:5], own[:, [5]], own[:, 6:8], own[:, 8:10]]
        (x, *two_x), (u, *two_u) = views[:3], views[3:]
        images = torch.cat(
            [problem.points[i.squeeze(1)] + view / 50 for i, both in ((x, two_x), (u, two_u)) for view in both]
        )
        order, weight = mix[:, 5 * k : 5 * k + 4].flatten().argsort(), mix[0, 5 * k + 4]
        expected.append(by_hand(method, k, images, x.squeeze(1), order, weight, lambda_u=25 * 2 / 4))
        if k == 0:  # the first network takes its step before the second asks it
            optimizer = method.trainees[0].optimizer
            optimizer.zero_grad()
            expected[0].backward()
            before = [p.detach().clone() for p in method.trainees[0].network.parameters()]
            gradients = [p.grad.clone() for p in method.trainees[0].network.parameters()]
            with torch.no_grad():
                for p, g in zip(method.trainees[0].network.parameters(), gradients, strict=True):
                    p -= 0.1 * (g + 1e-3 * p)
    with torch.no_grad():
        for p, value in zip(method.trainees[0].network.parameters(), before, strict=True):
            p.copy_(value)
    loss = method.step(batch, Clock(epoch=1, epochs=8))
    assert loss.item() == pytest.approx(sum(expected).item() / 2, rel=1e-5)
    assert method.rows.place.item() == 3


def test_the_unlabelled_term_ramps_up_from_step_to_step():
    """Twice 128 rows are half an epoch's table: the ramp of 2 epochs is at (1 + 1/2)/2."""
    problem = blobs()
    method = mixing(setup_for(problem), rampup_epochs=2)
    seen = []
    mix = method._mix
    method._mix = lambda *arguments: seen.append(arguments[-1].item()) or mix(*arguments)
    for batch in batches(problem, 1, size=128):
        method.step(batch, Clock(epoch=1, epochs=8))
    assert seen == pytest.approx([0, 0, 25 * 0.25, 25 * 0.25])


@pytest.mark.parametrize("wiring", [{}, {"decompose_in": "all"}])
def test_in_reduced_precision_no_network_is_asked_with_weights_that_are_gone(wiring):
    """Torch may keep casts of weights within an autocast block: a step gives the same with and without."""
    problem, curves = blobs(), []
    for cached in (True, False):
        method = build("dividemix+tnlpad", setup_for(problem), **wiring)
        train(method, problem, 2)
        clock = Clock(epoch=3, epochs=8)
        method.begin_epoch(clock)
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
            curves.append([method.step(batch, clock).item() for batch in batches(problem, 3)])
    assert curves[0] == curves[1]


def test_an_empty_side_of_the_split_is_all_samples():
    problem = blobs(samples=40)
    for threshold, given in ((0.0, problem.given), (0.999999999, problem.given)):
        method = mixing(setup_for(problem, labels=given), threshold=threshold)
        method.clean.fill_(0.5)
        for selection in method.selections.values():
            selection.fill_(threshold == 0)
        method._draw()
        start = 5 if threshold == 0 else 0
        assert set(method.rows.table[:, start].tolist()) <= set(range(40))
        assert method.step(batches(problem, 1)[0], Clock(epoch=1, epochs=8)).isfinite()


def test_the_sum_of_logits_is_judged():
    problem = blobs()
    method = build("dividemix", setup_for(problem))
    train(method, problem, 3)
    with method.judged["both"]() as network, torch.no_grad():
        assert isinstance(network, SummedLogits)
        expected = sum(trainee.network(problem.test_points) for trainee in method.trainees)
        assert torch.equal(network(problem.test_points), expected)


def test_the_penalty_runs_by_the_clock_of_the_warm_up():
    """After 10 epochs as after 40 of the paper's."""
    config = DividemixTnlpadConfig(warmup_epochs=10, c2=0.6)
    penalty = config.penalty(100)
    assert penalty == Faster(PowerDecay(0.6), 4.0)
    assert penalty(10) == pytest.approx(40**-0.6)
    assert penalty(1) == pytest.approx(4**-0.6)
    assert DividemixTnlpadConfig(decompose_in="all", c2=0.6).penalty(100) == PowerDecay(0.6)
    assert DividemixTnlpadConfig(gamma_constraint=False).penalty(100) is None


def test_after_the_warm_up_sigma_is_the_network():
    problem = blobs()
    method = build("dividemix+tnlpad", setup_for(problem, batchnorm=True))
    train(method, problem, 2)
    sigma = [[own["sigma"].clone() for own in trainee.parts().values()] for trainee in method.trainees]
    assert all(trainee.has_gamma() for trainee in method.trainees)
    with method.judged["both"]() as network:
        assert torch.equal(network.first[0].weight, sigma[0][0])
    statistics = method.trainees[0].network[1].running_mean.clone()
    method.begin_epoch(Clock(epoch=3, epochs=8))
    for trainee, kept in zip(method.trainees, sigma, strict=True):
        assert trainee.optimizer is trainee.plain
        assert torch.equal(trainee.network[0].weight, kept[0])
    assert torch.equal(method.trainees[0].network[1].running_mean, statistics)  # those for the split came and went


def test_decomposed_all_along_sigma_or_w_is_asked():
    problem = blobs()
    curves = {}
    for wiring in ({}, {"split_with": "w"}, {"guess_with": "w"}):
        method = build("dividemix+tnlpad", setup_for(problem, batchnorm=True), decompose_in="all", **wiring)
        curves[str(wiring)] = train(method, problem, 4)
        assert all(trainee.decomposed and trainee.has_gamma() for trainee in method.trainees)
    warm_up = [curve[:16] for curve in curves.values()]
    assert warm_up[0] == warm_up[1] == warm_up[2]
    assert len({tuple(curve) for curve in curves.values()}) == 3
    by_w = build("dividemix+tnlpad", setup_for(problem), decompose_in="all", judge_by="w")
    train(by_w, problem, 1)
    weight = by_w.trainees[0].network[0].weight.clone()
    with by_w.judged["both"]() as network:
        assert torch.equal(network.first[0].weight, weight)


@pytest.mark.parametrize("decompose_in", ["warmup", "all"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_reloaded_in_any_phase_it_goes_on_bit_for_bit(decompose_in, after):
    problem = blobs()
    method = build("dividemix+tnlpad", setup_for(problem, batchnorm=True), decompose_in=decompose_in)
    train(method, problem, after)
    torch.save(method.state_dict(), file := io.BytesIO())
    file.seek(0)
    expected = train(method, problem, range(after + 1, 6))
    fresh = build("dividemix+tnlpad", setup_for(problem, batchnorm=True, seed=9), decompose_in=decompose_in)
    train(fresh, problem, 4)  # from a later phase back into an earlier one
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert train(fresh, problem, range(after + 1, 6)) == expected
    assert same(weights(fresh), weights(method))


def test_it_divides_right_from_wrong():
    problem = blobs(samples=600, noise_rate=0.4)
    method = build("dividemix", setup_for(problem, sgd={"lr": 0.05, "momentum": 0.9}))
    train(method, problem, 5)
    right = problem.given == problem.clean
    for labelled in method.selections.values():
        assert (right & labelled).sum() / labelled.sum() > 0.9 > 0.65 > right.double().mean()
        assert (right & labelled).sum() / right.sum() > 0.85


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"warmup_epochs": -1}, "warmup_epochs=-1: must be at least 0"),
        ({"averaged_losses": 0}, "averaged_losses=0: must be at least 1"),
        ({"threshold": 1.0}, r"threshold=1.0: must lie in \[0, 1\)"),
        ({"temperature": 0.0}, "temperature=0.0: must be > 0"),
        ({"mixing_alpha": 0.0}, "mixing_alpha=0.0: must be > 0"),
        ({"lambda_u": -1.0}, "lambda_u=-1.0: must be >= 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        build("dividemix", setup_for(blobs()), **setting)


def test_images_in_files_are_refused():
    with pytest.raises(ValueError, match=r"^dividemix draws augmented images by itself"):
        build("dividemix", setup_for(blobs(), source=None))
