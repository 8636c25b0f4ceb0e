from dataclasses import replace

from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.training import Curves, Job, train


def test_both_methods_start_from_the_same_network_and_see_the_same_batches(raw, tiny_config):
    # Without learning nothing moves, and the network after an epoch is the one both started from.
    still = replace(tiny_config, learning_rate=0.0, epochs=1)
    plain = train(raw, Job(still, 1, None))["plain"]
    decomposed = train(raw, Job(still, 1, 1.0))
    assert plain == decomposed["w"] == decomposed["sigma"]


def test_the_chosen_epoch_is_the_first_best_on_validation():
    curves = Curves(test=(0.1, 0.2, 0.9, 0.4), validation=(0.2, 0.5, 0.3, 0.5), memorised=(0, 0, 0, 0))
    assert curves.chosen_epoch() == 2


def test_sigma_memorises_less_and_reads_better_than_plain_training(raw):
    config = DemoConfig()
    plain = train(raw, Job(config, 1, None))["plain"]
    decomposed = train(raw, Job(config, 1, 1.0))
    w, sigma = decomposed["w"], decomposed["sigma"]
    assert sigma.test[-1] > plain.test[-1] + 0.05
    assert sigma.memorised[-1] < 0.7 * min(plain.memorised[-1], w.memorised[-1])
    assert plain.memorised[-1] > 0.5  # or there would be nothing to show
