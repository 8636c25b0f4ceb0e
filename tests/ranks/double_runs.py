"""Complete runs in double precision, for comparisons of one process with several ranks.

    python -m tests.ranks.double_runs FOLDER [DEVICE [CASE ...]]

writes the run folder of each case into FOLDER, and the state of its method beside it.
"""

import sys
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn

from tests.methods.problems import QUICK
from tnlpad.methods import METHODS
from tnlpad.ranks import group
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import RunConfig, configure
from tnlpad.runs.run import run

WITH_BATCHNORM = ("tnlpad", "coteaching", "self+tnlpad", "dividemix+tnlpad")
CASES = (*METHODS, *(f"{method}/batchnorm" for method in WITH_BATCHNORM))
# Shares of 50 and 51 samples, and a last batch of a single one: 1,617 samples are trained on.
BATCH_SIZE, EPOCHS = 101, 5


class InDouble(nn.Module):
    """A small network that takes images in single precision."""

    def __init__(self, num_classes: int, *, batchnorm: bool) -> None:
        super().__init__()
        norm = [nn.BatchNorm2d(4)] if batchnorm else []
        layers = (nn.Conv2d(1, 4, 3), *norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, num_classes))
        self.layers = nn.Sequential(*layers).double()

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.layers(images.double())
        return outputs


def config_of(case: str) -> RunConfig:
    method = case.split("/")[0]
    settings = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "crop_padding": 0, "flip": False, "compiled": False}
    options = {"noise_rate": 0.4, **QUICK.get(method, {})}
    return configure("digits", noise="symmetric:0.4", method=method, settings=settings | options)


def trained(case: str, out: Path, **options: object) -> RunFolder:
    """Train a case into its folder, and save the final state of the method."""
    methods = []

    def build(config: RunConfig, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        return InDouble(num_classes, batchnorm=case.endswith("batchnorm"))

    place = out / case.replace("/", "-")
    with mock.patch("tnlpad.runs.prepare.build_network", build):
        folder = run(config_of(case), place, scoring_interval=1, on_prepared=lambda m, *_: methods.append(m), **options)
    if group.rank() == 0 and methods:
        torch.save(methods[0].state_dict(), place / "state.pt")
    return folder


def main(out: str, device: str = "cpu", *cases: str) -> None:
    torch.set_num_threads(1)
    with group.joined(torch.device(device), timeout=60) as place:
        for case in cases or CASES:
            trained(case, Path(out), device=str(place))


if __name__ == "__main__":
    main(*sys.argv[1:])
