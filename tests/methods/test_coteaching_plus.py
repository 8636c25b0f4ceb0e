"""Co-teaching+ by hand, and its equivalence with Co-teaching."""

import math

import pytest

from tests.methods.problems import blobs, build, same, setup_for, train, weights
from tests.methods.tables import LN3, LN9, moved, one_step, table_batch, table_setup
from tnlpad.types import Clock

# The predicted class is 0 where the margin is positive: the networks disagree about samples 0, 2 and 3.
FIRST, SECOND = [LN9, LN3, -LN3, -LN9], [-LN3, LN3, LN3, LN9]


@pytest.mark.parametrize(("average_over", "divisor"), [("batch", 4), ("selected", 1)])
def test_each_learns_from_the_disagreements_that_the_other_selected(average_over, divisor):
    setup = table_setup(FIRST, SECOND)
    method = build("coteaching_plus", setup, init_epoch=0, gradual_epochs=1, average_over=average_over)
    loss = one_step(method, 4)
    # Of three samples in disagreement ⌊1.5⌋ = 1 is kept: sample 0 by the first network, sample 3 by the second.
    assert method.selections["first"].tolist() == [True, False, False, False]
    assert method.selections["second"].tolist() == [False, False, False, True]
    first, second = method.networks
    assert moved(first, FIRST) == pytest.approx([0.0, 0.0, 0.0, 0.9 / divisor])
    assert moved(second, SECOND) == pytest.approx([0.75 / divisor, 0.0, 0.0, 0.0])
    assert loss == pytest.approx((-math.log(0.1) - math.log(0.25)) / 2 / divisor)


def test_a_single_disagreement_is_kept():
    first, second = [LN9, LN3, LN3], [LN9, LN3, -LN3]
    method = build("coteaching_plus", table_setup(first, second), init_epoch=0, gradual_epochs=1)
    one_step(method, 3)
    assert moved(method.networks[0], first) == pytest.approx([0.0, 0.0, 0.25 / 3])
    assert moved(method.networks[1], second) == pytest.approx([0.0, 0.0, 0.75 / 3])


@pytest.mark.parametrize("average_over", ["batch", "selected"])
def test_where_the_networks_agree_they_learn_from_the_whole_batch(average_over):
    """No sample is left out, although half of them would be forgotten."""
    margins = [LN9, LN3]
    setup = table_setup(margins, margins)
    method = build("coteaching_plus", setup, init_epoch=0, gradual_epochs=1, average_over=average_over)
    assert one_step(method, 2) == pytest.approx(-(math.log(0.9) + math.log(0.75)) / 2)
    for network in method.networks:
        assert moved(network, margins) == pytest.approx([0.1 / 2, 0.25 / 2])
    assert method.selections["first"].all()


def test_they_do_so_while_epoch_times_step_is_small():
    """Steps count from 0 in every epoch: in epoch 3 the products are 0, 3 and 6, in epoch 6 they are 0, 6 and 12."""
    margins = [LN9, LN3]
    method = build("coteaching_plus", table_setup(margins, margins), init_epoch=0, whole_batch_until=6)
    learned = []
    for epoch in (3, 6):
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        learned.append([method.step(table_batch(2), clock).item() > 0 for _ in range(3)])
    assert learned == [[True, True, False], [True, False, False]]


def test_later_only_weight_decay_acts():
    margins = [LN9, LN3]
    setup = table_setup(margins, margins, sgd={"lr": 1.0, "weight_decay": 0.5})
    method = build("coteaching_plus", setup, init_epoch=0, gradual_epochs=1, whole_batch_until=0)
    assert one_step(method, 2) == 0.0
    for network in method.networks:
        assert network.weight[0].tolist() == pytest.approx([LN9 / 2, LN3 / 2])
    assert not method.selections["first"].any()


def test_before_its_start_it_is_coteaching():
    problem = blobs()
    plus = build("coteaching_plus", setup_for(problem), init_epoch=2)
    plain = build("coteaching", setup_for(problem))
    train(plus, problem, 2)
    train(plain, problem, 2)
    assert same(weights(plus), weights(plain))
    train(plus, problem, range(3, 4))
    train(plain, problem, range(3, 4))
    assert not same(weights(plus), weights(plain))


def test_a_negative_start_is_refused():
    with pytest.raises(ValueError, match="init_epoch=-1"):
        build("coteaching_plus", setup_for(blobs()), init_epoch=-1)


def test_another_divisor_is_refused():
    with pytest.raises(ValueError, match="average_over='dataset'"):
        build("coteaching_plus", setup_for(blobs()), average_over="dataset")


def test_a_run_of_plain_coteaching_only_is_refused():
    setup = setup_for(blobs())
    build("coteaching_plus", setup, init_epoch=setup.epochs - 1)
    with pytest.raises(ValueError, match=f"init_epoch={setup.epochs}: all {setup.epochs} epochs"):
        build("coteaching_plus", setup, init_epoch=setup.epochs)
