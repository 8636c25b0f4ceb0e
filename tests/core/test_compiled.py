"""What is compiled does not depend on the moment."""

import pytest
import torch
from torch import nn

from tnlpad.core.compiled import compile_options


def test_no_form_of_a_sum_is_timed_neither_forward_nor_backward(monkeypatch, tmp_path):
    from torch._inductor import compile_fx, config

    if not hasattr(config, "deterministic"):
        pytest.skip("torch before 2.10 cannot be told")
    seen, compiles = [], compile_fx._InProcessFxCompile
    kernels_of = compiles.codegen_and_compile

    def noted(*arguments, **named):
        seen.append(config.deterministic)
        return kernels_of(*arguments, **named)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # what is found there is not compiled
    monkeypatch.setattr(compiles, "codegen_and_compile", noted)
    layer = nn.Linear(3, 4)
    torch.compiler.reset()
    torch.compile(lambda rows: layer(rows).tanh().sum(), **compile_options())(torch.randn(5, 3)).backward()
    assert seen == [True, True]
    assert not config.deterministic
