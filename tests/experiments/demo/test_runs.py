from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.experiments.demo.fake_outcomes import fake_outcomes
from tnlpad.experiments.demo import runs
from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.runs import run_demo


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
