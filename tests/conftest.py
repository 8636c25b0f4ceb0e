"""Settings for every test: one thread each, since the tests themselves run side by side; long ones only when asked."""

import signal

import pytest
import torch

torch.set_num_threads(1)
# Started in the background of a script, the tests would ignore SIGINT, and so would every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Skipped and not deselected: what a run leaves out should be listed with its reason.
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes long: make test-long"))
