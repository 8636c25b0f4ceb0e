from dataclasses import replace

import pytest

from tnlpad.experiments.tsne import Shown, compute, configurations

SHOWN = Shown(dataset="digits", noises=("pairflip:0.4",), epochs=(1, 3), settings={"epochs": 4, "milestones": "3"})


def test_seed_protocol_and_settings_are_those_of_the_runs():
    for config in configurations(replace(SHOWN, seed=5, protocol="authors"), "cpu"):
        assert (config.seed, config.protocol, config.epochs, config.precision) == (5, "authors", 4, "float32")
    assert all(config.precision == "bfloat16" for config in configurations(SHOWN, "cuda"))


def test_epochs_must_exist(tmp_path):
    for epochs in ((), (0,), (5,)):
        with pytest.raises(ValueError, match="from 1 to 4"):
            compute(tmp_path, replace(SHOWN, epochs=epochs))
    assert not list(tmp_path.iterdir())


def test_a_run_must_come_to_its_epochs():
    with pytest.raises(ValueError, match="patience=2"):
        configurations(replace(SHOWN, settings={**SHOWN.settings, "patience": 2}), "cpu")
