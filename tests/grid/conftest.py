import pytest

from tnlpad.grid.demo import DemoConfig, load_raw_digits, run_demo


@pytest.fixture(scope="package")
def raw():
    return load_raw_digits()


@pytest.fixture(scope="package")
def tiny_config():
    return DemoConfig(seeds=(1, 2), epochs=2, train_size=128, validation_size=64, c2_candidates=(0.5, 1.0))


@pytest.fixture(scope="package")
def tiny(tiny_config):
    """What the demo gives with that configuration."""
    return run_demo(tiny_config)
