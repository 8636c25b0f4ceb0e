"""Marks for tests of Triton kernels, which run on a GPU or interpreted on a CPU."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
# Triton reads this variable when it is imported, and then runs kernels as Python.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

with_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
with_kernels = pytest.mark.skipif(not ON_GPU and not INTERPRETED, reason="another test runs it in a process of its own")


def run_interpreted(file: str, passing: int) -> None:
    """Run the tests of a file that are marked `gpu` with interpreted kernels, and require this many to pass."""
    if ON_GPU or INTERPRETED or importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton and no GPU")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", file]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{passing} passed" in done.stdout
