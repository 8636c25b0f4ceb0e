"""Marks for tests of Triton kernels, which run on a GPU or interpreted on a CPU."""

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
# Triton reads this variable when it is imported, and then runs kernels as Python.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

with_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
with_kernels = pytest.mark.skipif(not ON_GPU and not INTERPRETED, reason="another test runs it in a process of its own")
