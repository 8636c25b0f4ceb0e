import pytest
import torch
from torch import nn

from tnlpad.methods.casting import casting_anew


def test_weights_that_changed_are_cast_anew():
    layer, images = nn.Linear(4, 3), torch.ones(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        layer(images)
        with casting_anew(), torch.no_grad():
            layer(images)
            layer.weight.zero_()
            layer.bias.zero_()
            assert not layer(images).any()
        assert torch.is_autocast_cache_enabled()


def test_the_previous_setting_comes_back_after_an_error():
    torch.set_autocast_cache_enabled(False)
    try:
        with casting_anew():
            pass
        assert not torch.is_autocast_cache_enabled()
    finally:
        torch.set_autocast_cache_enabled(True)
    with pytest.raises(ZeroDivisionError), casting_anew():
        raise ZeroDivisionError
    assert torch.is_autocast_cache_enabled()
