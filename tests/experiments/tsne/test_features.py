from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import prepare_data
from tnlpad.experiments.tsne.features import _views


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(1)

    def features(self, images):
        return self.norm(images).flatten(1)

    def forward(self, images):
        return self.features(images)


def test_sigma_is_shown_with_statistics_of_its_own_where_there_are_any():
    config = configure("digits", noise="pairflip:0.4", settings={"batch_size": 256})
    device = torch.device("cpu")
    data = prepare_data(config, None, device)
    network = Normed()
    method = SimpleNamespace(judged={"sigma": lambda: nullcontext(network), "w": lambda: nullcontext(network)})
    views = _views(config, method, data, device)
    assert set(views) == {"sigma", "sigma_reestimated"}
    before = network.norm.running_mean.clone(), network.norm.running_var.clone()
    with views["sigma_reestimated"]() as held:
        assert held is network
        estimated = held.norm.running_mean.item(), held.norm.running_var.item()
    pixels = data.train[torch.from_numpy(data.parts.train)].double() / 255
    mean, std = data.normalisation.mean[0], data.normalisation.std[0]
    expected = (pixels - mean) / std
    assert estimated == pytest.approx((expected.mean().item(), expected.var().item()), abs=0.02)
    assert (network.norm.running_mean, network.norm.running_var) == before


def test_a_method_without_sigma_is_shown_by_w():
    method = SimpleNamespace(judged={"w": lambda: nullcontext(nn.Identity())})
    assert set(_views(configure("digits", method="standard"), method, None, torch.device("cpu"))) == {"w"}
