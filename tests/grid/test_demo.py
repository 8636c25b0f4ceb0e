import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.grid.fake_outcomes import fake_outcomes
from tnlpad.grid import demo as runs
from tnlpad.grid.demo import DIGITS, Curves, DemoConfig, Job, digits, record, run_demo, summary, train


def test_the_learning_rate_drops_once_for_the_last_quarter():
    config = DemoConfig()
    rates = [config.learning_rate_at(epoch) for epoch in range(1, 61)]
    assert rates == pytest.approx([0.01] * 45 + [0.001] * 15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, r"seeds=\(\): give at least one"),
        ({"seeds": (1, 1)}, "none of them twice"),
        ({"c2_candidates": ()}, "c2_candidates"),
        ({"epochs": 0}, "epochs=0: must be at least 1"),
        ({"batch_size": -1}, "batch_size=-1"),
    ],
)
def test_settings_without_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(DemoConfig(), **changes)


def rows(images):
    return {image.numpy().tobytes() for image in images}


def test_the_parts_of_a_seed_are_disjoint_and_complete(raw):
    data = digits(raw, DemoConfig(), 1)
    parts = [data.train_images, data.validation_images, data.test_images]
    assert [len(part) for part in parts] == [1000, 300, 497]
    # Every image of the bundled digits differs from all others, so that its pixels name it.
    assert len(set.union(*map(rows, parts))) == DIGITS == len(raw.labels)
    assert data.train_images.shape[1:] == (1, 8, 8)
    assert data.train_images.min() == 0
    assert data.train_images.max() == 1


def test_test_labels_are_clean_and_the_others_are_wrong_as_often_as_asked(raw):
    data = digits(raw, DemoConfig(), 1)
    truth = {(image / np.float32(16)).tobytes(): label for image, label in zip(raw.images, raw.labels, strict=True)}

    def share_wrong(images, labels):
        return np.mean([truth[i.numpy().tobytes()] != y for i, y in zip(images, labels.tolist(), strict=True)])

    assert share_wrong(data.test_images, data.test_labels) == 0
    assert share_wrong(data.train_images, data.train_labels) == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / 1000))
    assert share_wrong(data.validation_images, data.validation_labels) == pytest.approx(
        0.4, abs=4 * np.sqrt(0.24 / 300)
    )
    assert share_wrong(data.wrong_images, data.wrong_labels) == 1
    assert len(data.wrong_labels) == round(1000 * share_wrong(data.train_images, data.train_labels))
    assert rows(data.wrong_images) <= rows(data.train_images)


def test_seeds_change_split_and_noise(raw, tiny_config):
    first, again, other = (digits(raw, tiny_config, seed) for seed in (1, 1, 2))
    assert torch.equal(first.train_labels, again.train_labels)
    assert torch.equal(first.train_images, again.train_images)
    assert not torch.equal(first.train_images, other.train_images)
    assert not torch.equal(first.train_labels, other.train_labels)


def test_some_digits_must_be_left_for_testing(raw):
    with pytest.raises(ValueError, match="leave none for testing"):
        digits(raw, replace(DemoConfig(), train_size=1797), 1)


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


@pytest.mark.parametrize(
    ("validation", "chosen"), [((0.3, 0.5, 0.4), 1.0), ((0.6, 0.5, 0.4), 0.5), ((0.3, 0.5, 0.5), 1.0)]
)
def test_c2_is_chosen_by_validation_whatever_the_test_says(validation, chosen):
    config = DemoConfig(seeds=(1, 2), epochs=2)
    result = runs._result(config, fake_outcomes(config, validation, sigma_test=(0.1, 0.2, 0.9)), 0.0)
    assert result.chosen_c2 == chosen
    assert {curves.validation[-1] for curves in result.curves["sigma"]} == {validation[(0.5, 1.0, 2.0).index(chosen)]}


def test_the_same_numbers_again_without_touching_global_state(tiny, tiny_config):
    state, legacy, threads = torch.random.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()
    steps = []
    again = run_demo(tiny_config, progress=lambda done, total: steps.append((done, total)))
    assert again.curves == tiny.curves
    assert again.validation_by_c2 == tiny.validation_by_c2
    assert steps == [(done, 6) for done in range(7)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], legacy)
    assert torch.get_num_threads() == threads


def test_processes_give_the_same_numbers(tiny, tiny_config):
    assert run_demo(tiny_config, workers=2).curves == tiny.curves


def test_without_noise_nothing_is_memorised(tiny_config):
    result = run_demo(replace(tiny_config, noise_rate=0.0, seeds=(1,), c2_candidates=(1.0,)))
    assert set(result.curves["plain"][0].memorised) == {0.0}


def test_tuning_reports_validation_only(monkeypatch, tiny_config):
    monkeypatch.setattr(runs, "TUNE_LEARNING_RATES", (0.01, 0.02))
    monkeypatch.setattr(runs, "TUNE_WEIGHT_DECAYS", (1e-3,))
    cells = runs.tune(replace(tiny_config, seeds=(1,)))
    assert [(cell["learning_rate"], cell["weight_decay"]) for cell in cells] == [(0.01, 1e-3), (0.02, 1e-3)]
    assert not any("test" in key for cell in cells for key in cell)
    assert set(cells[0]["validation_last_epoch"]) == {"plain", "w", "sigma"}


def test_the_gain_by_hand():
    config = DemoConfig(seeds=(1, 2), epochs=2)
    result = runs._result(config, fake_outcomes(config, (0.3, 0.5, 0.4), (0.7, 0.8, 0.9)), 1.0)
    gain = record(result, "tnlpad demo")["gain"]
    assert gain["test_last_epoch"] == pytest.approx(0.8 - 0.65)
    assert gain["combined_sd"] == pytest.approx(np.std([0.6, 0.7], ddof=1))  # σ's own is 0 here


def test_summary_agrees_with_numpy():
    values = [0.2, 0.5, 0.9]
    result = summary(values)
    assert (result["mean"], result["sd"]) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert result["n"] == 3
    assert summary([0.5])["sd"] is None


def test_the_record_is_plain_json_and_complete(tiny):
    document = record(tiny, "tnlpad demo")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document["methods"]) == ["plain", "w", "sigma"]
    for method in document["methods"].values():
        assert len(method["curves"]) == 2
        for curves in method["curves"]:
            assert {name: len(values) for name, values in curves.items()} == dict.fromkeys(
                ("test", "validation", "memorised"), 2
            )
            assert all(0 <= share <= 1 for values in curves.values() for share in values)
    assert document["configuration"]["seeds"] == [1, 2]
    assert document["versions"]["torch"] == torch.__version__
    assert [candidate["c2"] for candidate in document["selection"]["candidates"]] == [0.5, 1.0]
