import copy
import math
import re
from functools import partial
from itertools import islice

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.methods.problems import Points, batches, blobs, build, same, setup_for, train, two_plain_runs
from tests.methods.semi_supervised import HELD, assert_it_resumes, held_at_zero, watched
from tnlpad.core.penalties import PowerDecay
from tnlpad.methods.coteaching import NAMES
from tnlpad.methods.dividemix import (
    Dividemix,
    DividemixConfig,
    DividemixTnlpadConfig,
    SummedLogits,
    linear_ramp,
    mixed,
    negative_entropy,
    prior_penalty,
    refined,
    sharpened,
    soft_cross_entropy,
    squared_distance,
    without_autocast_cache,
)
from tnlpad.methods.gaussian_mixture import clean_probability, normalised
from tnlpad.methods.protocol import chosen_by
from tnlpad.types import Clock

SHORT = {"warmup_epochs": 2, "rampup_epochs": 2}


def both(method):
    return list(method.both.state_dict().values())


@pytest.mark.parametrize("wiring", [{}, {"decompose_in": "all"}, {"decompose_in": "all", "guess_with": "w"}])
def test_with_gamma_held_at_zero_it_is_the_plain_method(wiring):
    """Bit for bit, warm-up and after."""
    problem = blobs()
    setups = [setup_for(problem, batchnorm=True) for _ in range(2)]
    plain = Dividemix(DividemixConfig(**SHORT), setups[0])
    held = Dividemix(held_at_zero(DividemixTnlpadConfig)(**SHORT, **HELD, **wiring), setups[1])
    assert train(plain, problem, 5) == train(held, problem, 5)
    assert same(both(plain), both(held))
    assert torch.equal(plain.clean, held.clean)
    assert held.learners[0].decomposed == (wiring != {})


def test_decomposed_in_a_warm_up_of_length_0_it_is_the_plain_method():
    problem = blobs()
    plain, combined = (
        build(name, setup_for(problem, batchnorm=True), warmup_epochs=0) for name in ("dividemix", "dividemix+tnlpad")
    )
    assert train(plain, problem, 3) == train(combined, problem, 3)
    assert same(both(plain), both(combined))


def test_a_warm_up_of_one_epoch_is_decomposed():
    method = build("dividemix+tnlpad", setup_for(blobs()), warmup_epochs=1)
    assert all(learner.decomposed for learner in method.learners)


def test_decomposed_throughout_it_needs_no_warm_up():
    problem = blobs()
    method = build("dividemix+tnlpad", setup_for(problem), warmup_epochs=0, decompose_in="all")
    train(method, problem, 2)
    assert all(learner.has_gamma() for learner in method.learners)


def test_the_warm_up_is_plain_training_of_both():
    """Networks 0 and 1 are trained as by Standard."""
    problem = blobs()
    method = build("dividemix", setup_for(problem))
    train(method, problem, 2)
    assert same(both(method), two_plain_runs(problem, 2))
    assert method.phase == "warm-up"
    assert all(learnt.all() for learnt in method.selections.values())


def test_the_warm_up_may_penalise_confident_predictions():
    problem = blobs()
    confident, held_back = (
        build("dividemix", setup_for(problem), warmup_entropy=entropy, warmup_epochs=5) for entropy in (False, True)
    )
    for method in (confident, held_back):
        train(method, problem, 5)
    highest = [
        Points(problem.points).outputs(each.learners[0].network).softmax(1).amax(1).mean()
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
    for k, learner in enumerate(method.learners):
        losses = F.cross_entropy(Points(problem.points).outputs(learner.network), problem.given, reduction="none")
        expected = clean_probability(normalised(losses)).float()
        assert torch.equal(method.clean[k], expected)
        assert torch.equal(list(method.selections.values())[1 - k], expected > 0.5)
    on_the_border = method.clean[1][7].item()
    assert not mixing(setup_for(problem), threshold=on_the_border).selections["first"][7]
    first, second = method.selections.values()
    assert not torch.equal(first, second)
    # The tables hold: labelled and two views, unlabelled and two views, for the first network and for the second.
    table = method.rows.table
    for start, labelled in ((0, first), (10, second)):
        assert set(table[:, start].tolist()) <= set(labelled.nonzero().flatten().tolist())
        assert set(table[:, start + 5].tolist()) <= set((~labelled).nonzero().flatten().tolist())


def test_held_out_samples_are_not_used():
    problem = blobs()
    index = torch.randperm(256, generator=torch.Generator().manual_seed(0))[:100]
    held_out = torch.ones(256, dtype=torch.bool).index_fill(0, index, False)
    source = Points(problem.points, index)
    method = mixing(setup_for(problem, source=lambda: source))
    for k, learner in enumerate(method.learners):
        losses = F.cross_entropy(source.outputs(learner.network), problem.given[index], reduction="none")
        assert torch.equal(method.clean[k][index], clean_probability(normalised(losses)).float())
        assert not list(method.selections.values())[k][held_out].any()
    assert len(method.rows.table) == 100
    assert not held_out[method.rows.table[:, [0, 5, 10, 15]]].any()


def test_the_mean_of_some_epochs_losses():
    problem = blobs()
    method = build("dividemix", setup_for(problem), warmup_epochs=0, averaged_losses=3)
    seen = []
    for epoch in range(1, 5):
        outputs = Points(problem.points).outputs(method.learners[0].network)
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
    """Compute the loss of one network's step row by row, as the paper describes it."""
    own, other = method.learners[k].network, method.learners[1 - k].network
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
    method.clean.uniform_(0.2, 0.9, generator=torch.Generator().manual_seed(1))  # so that predictions count as well
    for start in (1, 6, 11, 16):
        method.rows.table[:, start : start + 4] *= 25  # views that differ
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
        if k == 0:  # the first network is updated before it predicts for the second
            optimizer = method.learners[0].optimizer
            optimizer.zero_grad()
            expected[0].backward()
            before = [p.detach().clone() for p in method.learners[0].network.parameters()]
            gradients = [p.grad.clone() for p in method.learners[0].network.parameters()]
            with torch.no_grad():
                for p, g in zip(method.learners[0].network.parameters(), gradients, strict=True):
                    p -= 0.1 * (g + 1e-3 * p)
    with torch.no_grad():
        for p, value in zip(method.learners[0].network.parameters(), before, strict=True):
            p.copy_(value)
    loss = method.step(batch, Clock(epoch=1, epochs=8))
    assert loss.item() == pytest.approx(sum(expected).item() / 2, rel=1e-5)
    assert method.rows.place.item() == 3


def test_forward_passes_and_their_modes():
    """The training network predicts 4B views in training mode, the other one 2B views in evaluation mode."""
    problem = blobs()
    method = mixing(setup_for(problem, batchnorm=True))
    asked = watched({name: learner.network for name, learner in zip(NAMES, method.learners, strict=True)})
    for _ in range(2):
        method.step(batches(problem, 1, size=6)[0], Clock(epoch=1, epochs=8))
    one_step = []
    for own, other in (NAMES, NAMES[::-1]):
        one_step += [(own, True, False, 12), (other, False, False, 6), (own, True, True, 12)]
    assert asked == 2 * one_step


def test_guessing_counts_as_four_passes_in_the_statistics():
    """As in the public code. Otherwise mixed images, which vary less, would make up half of the statistics."""
    problem = blobs()
    method = mixing(setup_for(problem, batchnorm=True))
    network, seen = method.learners[0].network, []
    layer, before = copy.deepcopy(network[0]), network[1].running_mean.clone()
    network.register_forward_pre_hook(lambda _, images: seen.append(images[0]))
    method.step(batches(problem, 1)[0], Clock(epoch=1, epochs=8))
    plain, mixed = (layer(images).mean(0) for images in seen[:2])
    guessed = 0.9**4 * before + (1 - 0.9**4) * plain
    torch.testing.assert_close(network[1].running_mean, 0.9 * guessed + 0.1 * mixed)


def test_the_unlabelled_term_ramps_up_from_step_to_step():
    """A batch of 128 of the 256 samples is half an epoch: the ramp of 2 epochs is at (0 + 1/2)/2."""
    problem = blobs()
    method = mixing(setup_for(problem), rampup_epochs=2, steps="all")
    seen = []
    mix = method._mix
    method._mix = lambda *arguments: seen.append(arguments[-1].item()) or mix(*arguments)
    for batch in batches(problem, 1, size=128):
        method.step(batch, Clock(epoch=1, epochs=8))
    assert seen == pytest.approx([0, 0, 25 * 0.25, 25 * 0.25])


def test_a_pass_over_the_labelled_samples_ramps_it_up_by_an_epoch():
    problem = blobs()
    method = mixing(setup_for(problem), rampup_epochs=2)
    seen, mix = [], method._mix
    method._mix = lambda *arguments: seen.append(arguments[-1].item()) or mix(*arguments)
    for batch in islice(batches(problem, 1, size=32) * 2, method.steps_of_epoch(8)):
        method.step(batch, Clock(epoch=1, epochs=8))
    labelled = max(int(chosen.sum()) for chosen in method.selections.values())
    expected = [25 * 16 * step / labelled / 2 for step in range(math.ceil(labelled / 16)) for _ in range(2)]
    assert seen == pytest.approx(expected)


def test_an_epoch_is_a_pass_over_the_labelled_samples():
    """With 256 samples in 8 batches, a step takes 16 labelled ones; the larger labelled set is read once."""
    problem = blobs()
    method = mixing(setup_for(problem))
    for first, second, steps in ((1, 16, 1), (17, 3, 2), (144, 145, 10), (256, 0, 16)):
        for selection, size in zip(method.selections.values(), (first, second), strict=True):
            selection.copy_(torch.arange(256) < size)
        method._draw()
        # An empty labelled set is replaced by all samples.
        assert method.steps_of_epoch(8) == (steps if second else 16)
        name = 0 if first > second else 10
        read = method.rows.table[: max(first, second), name].tolist()
        assert sorted(read) == list(range(max(first, second)))
    method.phase = "warm-up"
    assert method.steps_of_epoch(8) == 8
    assert mixing(setup_for(problem), steps="all").steps_of_epoch(8) == 8


def test_the_ramp_goes_on_from_epoch_to_epoch():
    """Over 4 epochs, starting with the third epoch of the run."""
    problem, seen = blobs(), []
    method = build("dividemix", setup_for(problem), rampup_epochs=4, steps="all")
    mix = method._mix
    method._mix = lambda *arguments: seen.append(arguments[-1].item()) or mix(*arguments)
    for epoch in range(1, 9):
        train(method, problem, range(epoch, epoch + 1), size=256)
    expected = [25 * min(done / 4, 1) for done in range(6)]
    assert seen == pytest.approx([each for each in expected for _ in range(2)])


@pytest.mark.parametrize("wiring", [{}, {"decompose_in": "all"}])
def test_in_reduced_precision_no_outdated_weights_are_used(wiring):
    """A step gives the same result whether or not autocast caches casts of weights."""
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
        assert len(set(method.rows.table[:, start].tolist())) == 40
        assert method.step(batches(problem, 1)[0], Clock(epoch=1, epochs=8)).isfinite()


def test_the_sum_of_logits_is_judged():
    problem = blobs()
    method = build("dividemix", setup_for(problem))
    train(method, problem, 3)
    with method.judged["both"]() as network, torch.no_grad():
        assert isinstance(network, SummedLogits)
        expected = sum(learner.network(problem.test_points) for learner in method.learners)
        assert torch.equal(network(problem.test_points), expected)


def test_after_the_warm_up_sigma_is_the_network():
    problem = blobs()
    method = build("dividemix+tnlpad", setup_for(problem, batchnorm=True))
    train(method, problem, 2)
    sigma = [[own["sigma"].clone() for own in learner.parts().values()] for learner in method.learners]
    assert all(learner.has_gamma() for learner in method.learners)
    with method.judged["both"]() as network:
        assert torch.equal(network.first[0].weight, sigma[0][0])
    of_w = method.learners[0].network[1].running_mean.clone()
    method.begin_epoch(Clock(epoch=3, epochs=8))
    for learner, kept in zip(method.learners, sigma, strict=True):
        assert learner.optimizer is learner.plain
        assert torch.equal(learner.network[0].weight, kept[0])
        # The BatchNorm statistics are those of σ, over the 64 points that Points uses.
        seen = learner.network[0](problem.points[:64])
        torch.testing.assert_close(learner.network[1].running_mean, seen.mean(0))
        torch.testing.assert_close(learner.network[1].running_var, seen.var(0))
        assert learner.network[1].momentum == 0.1
        assert learner.network[1].training
    assert not torch.allclose(method.learners[0].network[1].running_mean, of_w, atol=0.01)


def test_decomposed_throughout_sigma_or_w_is_used():
    problem = blobs()
    curves = {}
    for wiring in ({}, {"split_with": "w"}, {"guess_with": "w"}):
        method = build("dividemix+tnlpad", setup_for(problem, batchnorm=True), decompose_in="all", **wiring)
        curves[str(wiring)] = train(method, problem, 4)
        assert all(learner.decomposed and learner.has_gamma() for learner in method.learners)
    warm_up = [curve[:16] for curve in curves.values()]
    assert warm_up[0] == warm_up[1] == warm_up[2]
    assert len({tuple(curve) for curve in curves.values()}) == 3


def test_sigma_splits_with_statistics_of_its_own():
    problem = blobs()
    source = Points(problem.points)
    by_sigma, by_w = (
        build("dividemix+tnlpad", setup_for(problem, batchnorm=True), decompose_in="all", split_with=part)
        for part in ("sigma", "w")
    )
    for method in (by_sigma, by_w):
        train(method, problem, 2)
        method.begin_epoch(Clock(epoch=3, epochs=8))

    def believed(network):
        losses = F.cross_entropy(source.outputs(network), problem.given, reduction="none")
        return clean_probability(normalised(losses)).float()

    for k, learner in enumerate(by_sigma.learners):
        with learner.using("sigma") as network, source.reestimated(network):
            assert torch.equal(by_sigma.clean[k], believed(network))
            of_sigma = network[1].running_mean.clone()
        assert torch.equal(by_w.clean[k], believed(by_w.learners[k].network))
        assert not torch.equal(by_sigma.clean[k], by_w.clean[k])
        with by_sigma.judged["both"]() as network:
            assert torch.equal((network.first, network.second)[k][1].running_mean, of_sigma)


def test_w_may_be_judged():
    problem = blobs()
    by_w = build("dividemix+tnlpad", setup_for(problem), decompose_in="all", judge_by="w")
    train(by_w, problem, 1)
    weight = by_w.learners[0].network[0].weight.clone()
    with by_w.judged["both"]() as network:
        assert torch.equal(network.first[0].weight, weight)


def test_w_may_choose_the_epoch_for_sigma():
    """As in the authors' code; σ is still shipped."""
    problem = blobs()
    usual, by_w = (
        build("dividemix+tnlpad", setup_for(problem), **judging) for judging in ({}, {"judge_by": "sigma_chosen_by_w"})
    )
    assert list(usual.judged) == list(chosen_by(usual)) == ["both"]
    assert list(by_w.judged) == ["both", "both_w"]
    assert list(by_w.reported) == ["both"]
    assert list(chosen_by(by_w)) == ["both_w"]
    train(by_w, problem, 1)
    parts = next(iter(by_w.learners[0].parts().values()))
    for name, held in (("both", parts["sigma"]), ("both_w", parts["sigma"] + parts["gamma"])):
        with by_w.judged[name]() as network:
            assert torch.equal(network.first[0].weight, held)


@pytest.mark.parametrize("decompose_in", ["warmup", "all"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_it_resumes_bit_for_bit_in_any_phase(decompose_in, after):
    make = partial(build, "dividemix+tnlpad", decompose_in=decompose_in)
    assert_it_resumes(make, blobs(), after=after, last=5, from_epoch=4)  # from a later phase back into an earlier one


def test_it_separates_right_from_wrong_labels():
    problem = blobs(samples=600, noise_rate=0.4)
    method = build("dividemix", setup_for(problem, sgd={"lr": 0.05, "momentum": 0.9}))
    train(method, problem, 5)
    right = problem.given == problem.clean
    for labelled in method.selections.values():
        assert (right & labelled).sum() / labelled.sum() > 0.9 > 0.65 > right.double().mean()
        assert (right & labelled).sum() / right.sum() > 0.85


@pytest.mark.parametrize("name", ["dividemix", "dividemix+tnlpad"])
def test_images_in_files_are_refused(name):
    with pytest.raises(ValueError, match=rf"^{re.escape(name)} .* must be in memory"):
        build(name, setup_for(blobs(), source=None))


def test_the_penalty_runs_at_the_pace_of_the_warm_up():
    """After 10 epochs it has the value of epoch 40 in the paper."""
    config = DividemixTnlpadConfig(warmup_epochs=10, c2=0.6)
    penalty = config.penalty(100)
    assert penalty(10) == pytest.approx(40**-0.6)
    assert penalty(1) == pytest.approx(4**-0.6)
    assert DividemixTnlpadConfig(decompose_in="all", c2=0.6).penalty(100) == PowerDecay(0.6)
    assert DividemixTnlpadConfig(gamma_constraint=False).penalty(100) is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"warmup_epochs": -1}, "warmup_epochs=-1: must be at least 0"),
        ({"rampup_epochs": -1}, "rampup_epochs=-1: must be at least 0"),
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


def test_a_warmup_clock_of_zero_is_refused():
    with pytest.raises(ValueError, match="warmup_clock=0: must be at least 1"):
        build("dividemix+tnlpad", setup_for(blobs()), warmup_clock=0)


def test_settings_without_effect_are_refused():
    for name in ("split_with", "guess_with"):
        with pytest.raises(ValueError, match=f'{name}="w": .*decompose_in="warmup"'):
            build("dividemix+tnlpad", setup_for(blobs()), **{name: "w"})
    with pytest.raises(ValueError, match="warmup_epochs=8: all 8 epochs"):
        build("dividemix", setup_for(blobs()), warmup_epochs=8)


def test_without_autocast_cache_changed_weights_are_cast_again():
    layer, images = nn.Linear(4, 3), torch.ones(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        layer(images)
        with without_autocast_cache(), torch.no_grad():
            layer(images)
            layer.weight.zero_()
            layer.bias.zero_()
            assert not layer(images).any()
        assert torch.is_autocast_cache_enabled()


def test_the_autocast_cache_setting_is_restored():
    torch.set_autocast_cache_enabled(False)
    try:
        with without_autocast_cache():
            pass
        assert not torch.is_autocast_cache_enabled()
    finally:
        torch.set_autocast_cache_enabled(True)
    with pytest.raises(ZeroDivisionError), without_autocast_cache():
        raise ZeroDivisionError
    assert torch.is_autocast_cache_enabled()


LN3 = math.log(3)


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_sharpening():
    """At T = 0.5 squares: (0.8, 0.2) → (0.64, 0.04)/0.68; at T = 1 nothing."""
    assert sharpened(rows([0.8, 0.2]), 0.5).tolist()[0] == pytest.approx([16 / 17, 1 / 17])
    assert sharpened(rows([0.8, 0.2]), 1.0).tolist()[0] == pytest.approx([0.8, 0.2])


def test_refinement():
    """A quarter of the label, three quarters of the prediction."""
    p, labels = rows([0.2, 0.8], [0.5, 0.5]), torch.tensor([0, 1])
    found = refined(p, labels, torch.tensor([0.25, 1.0], dtype=torch.float64))
    assert found.tolist() == [pytest.approx([0.25 + 0.75 * 0.2, 0.75 * 0.8]), [0, 1]]


def test_mixing():
    values, order = rows([0.0], [10.0], [20.0]), torch.tensor([2, 0, 1])
    assert mixed(values, order, rows(0.75)).flatten().tolist() == [5, 7.5, 17.5]


def test_the_loss_of_labelled_rows():
    """Logits (ln 3, 0) are p = (3/4, 1/4)."""
    logits, targets = rows([LN3, 0.0], [LN3, 0.0], [0.0, LN3]), rows([1.0, 0.0], [0.5, 0.5], [1.0, 0.0])
    first, second, third = -math.log(0.75), -0.5 * (math.log(0.75) + math.log(0.25)), -math.log(0.25)
    assert soft_cross_entropy(logits, targets).item() == pytest.approx((first + second + third) / 3)


def test_the_loss_of_unlabelled_rows():
    """(0.25² + 0.25²)/2 and 0, over two rows."""
    logits, targets = rows([LN3, 0.0], [0.0, 0.0]), rows([1.0, 0.0], [0.5, 0.5])
    assert squared_distance(logits, targets).item() == pytest.approx(0.25**2 / 2)


def test_the_penalty_for_missing_classes():
    """p̄ = (3/4, 1/4) against one half each, and no penalty where both classes are as frequent."""
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert prior_penalty(rows([LN3, 0.0], [LN3, 0.0])).item() == pytest.approx(expected)
    assert prior_penalty(rows([LN3, 0.0], [0.0, LN3])).item() == pytest.approx(0, abs=1e-12)


def test_negative_entropy():
    """Rows (3/4, 1/4) once and (1/2, 1/2) twice."""
    expected = 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    found = negative_entropy(rows([LN3, 0.0], [0.0, 0.0], [1.0, 1.0])).item()
    assert found == pytest.approx((expected - 2 * math.log(2)) / 3)


def test_the_linear_ramp():
    assert linear_ramp(torch.tensor([-1.0, 0.0, 4.0, 16.0, 20.0]), 16).tolist() == [0, 0, 0.25, 1, 1]
    assert linear_ramp(torch.tensor([0.0, 0.5, 2.0]), 0).tolist() == [1, 1, 1]
