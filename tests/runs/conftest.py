import pytest

from tests.runs.file_trees import write_clothing1m, write_food101


@pytest.fixture
def root(tmp_path):
    return write_food101(tmp_path / "data")


@pytest.fixture
def clothing(tmp_path):
    return write_clothing1m(tmp_path / "data")
