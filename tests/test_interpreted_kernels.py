"""Run the tests of all Triton kernels without a GPU, in one process that interprets them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import INTERPRETED, ON_GPU

ROOT = Path(__file__).parents[1]
FILES = {"core/test_fused_sgd.py": 12, "core/test_select.py": 1, "networks/test_fused_block.py": 5}


@pytest.mark.skipif(
    ON_GPU or INTERPRETED or importlib.util.find_spec("triton") is None, reason="needs Triton and no GPU"
)
def test_the_kernels_are_right_where_there_is_no_gpu():
    files = [str(ROOT / "tests" / name) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *files]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{sum(FILES.values())} passed" in done.stdout
