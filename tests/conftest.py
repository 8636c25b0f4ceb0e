"""Settings for every test: one thread each, a cache of features of their own, and long ones only when asked."""

import os
import signal

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the Hugging Face packages are imported

import pytest
import torch

torch.set_num_threads(1)
# Started in the background of a script, the tests would ignore SIGINT, and so would every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long as well")


@pytest.fixture(scope="session", autouse=True)
def _feature_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests, and the processes that they start, out of the user's cache of features."""
    os.environ["TNLPAD_CACHE"] = str(tmp_path_factory.mktemp("features"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Skipped and not deselected: what a run leaves out should be listed with its reason.
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes long: make test-long"))
