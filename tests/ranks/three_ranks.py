"""Checks that run on every rank of a launch; the test only looks at the exit code."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from tnlpad.errors import DataError
from tnlpad.methods.forward import forward
from tnlpad.ranks import group
from tnlpad.ranks.batchnorm import SharedBatchNorm2d, share_statistics, whole_statistics
from tnlpad.training.measure import outputs

TOTAL = 11  # shares of 3, 4 and 4


def check_exchange():
    rows = torch.arange(TOTAL * 2.0).view(TOTAL, 2)
    assert torch.equal(group.whole(rows[group.share(TOTAL)], TOTAL), rows)
    assert torch.equal(group.whole(rows[:2], 2), rows[:2])  # fewer than ranks: every rank has all
    counts = torch.arange(TOTAL, dtype=torch.int32)
    assert torch.equal(group.whole(counts[group.share(TOTAL)], TOTAL), counts)
    assert group.from_each(group.rank()) == [0, 1, 2]
    assert group.from_first(f"rank {group.rank()}") == "rank 0"
    assert float(group.add_up(torch.tensor(float(group.rank())))) == 3.0


def check_errors(folder):
    def refuse():
        raise DataError(f"cannot read {group.rank()}")

    with pytest.raises(DataError, match="cannot read 0") as caught:
        group.on_first(refuse)
    assert (group.OF_FIRST in getattr(caught.value, "__notes__", [])) == (group.rank() > 0)

    class Unusual(Exception):
        def __init__(self, first, second):
            super().__init__(first)

    def unusual():
        raise Unusual("odd", "ly")  # cannot be sent as it is

    with pytest.raises(Unusual if group.rank() == 0 else RuntimeError, match="odd"):
        group.on_first(unusual)
    with pytest.raises(ValueError, match=r"Rank 1 has another number than rank 0 \(1 and 0\)"):
        group.require_same(min(group.rank(), 1), "number")

    @contextmanager
    def locked():
        (folder / f"held by {group.rank()}").touch()
        yield
        (folder / f"left by {group.rank()}").touch()

    with group.held_by_first(locked):
        pass
    group.from_each(None)  # all have left
    assert sorted(path.name for path in folder.iterdir()) == ["held by 0", "left by 0"]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


def check_batchnorm(device, dtype, tolerance, layout):
    torch.manual_seed(1)
    images, labels = 3 + torch.randn(TOTAL, 2, 6, 6), torch.randint(4, (TOTAL,)).to(device)
    images, shared, plain = (each.to(device, dtype, memory_format=layout) for each in (images, network(), network()))
    share_statistics(shared)
    assert isinstance(shared[1], SharedBatchNorm2d)
    for momentum in (0.1, None):
        shared[1].momentum = plain[1].momentum = momentum
        expected = plain(images)
        nn.functional.cross_entropy(expected, labels).backward()
        found = forward(shared, images[group.share(TOTAL)], total=TOTAL)
        nn.functional.cross_entropy(found, labels).backward()
        assert found.dtype == expected.dtype
        assert (found - expected).abs().max() < tolerance
        for ours, theirs in zip(shared.parameters(), plain.parameters(), strict=True):
            assert (ours.grad - theirs.grad).abs().max() < tolerance
            ours.grad = theirs.grad = None
        for ours, theirs in zip(shared.buffers(), plain.buffers(), strict=True):
            assert (ours - theirs).abs().max() < tolerance
    shared.eval()
    plain.eval()
    everything = outputs(shared, images.__getitem__, torch.arange(TOTAL), batch_size=2)
    assert (everything - plain(images)).abs().max() < max(tolerance, 1e-5)


def check_statistics_of_bfloat16(device):
    """Channels whose mean is far from zero lose nothing: statistics are not rounded to the dtype of the values."""
    torch.manual_seed(2)
    images = (torch.tensor([0.0, 3.0, 10.0, 30.0])[:, None, None] + torch.randn(TOTAL, 4, 8, 8)).bfloat16().to(device)
    mean, variance, _ = whole_statistics(images[group.share(TOTAL)])
    exact_variance, exact_mean = torch.var_mean(images.double(), (0, 2, 3), correction=0)
    assert (mean - exact_mean).abs().max() < 1e-5
    assert (variance / exact_variance - 1).abs().max() < 1e-5

    # Three times such a number is exact in bfloat16: outputs are added up over ranks before gradients are averaged.
    factors = torch.randint(-8, 9, (TOTAL, 4, 8, 8), device=device).bfloat16()
    exact, plain, shared = (nn.BatchNorm2d(4).to(device) for _ in range(3))
    share_statistics(shared)

    def gradient(images, outputs):
        images = images.clone().requires_grad_()
        (outputs(images) * factors).sum().backward()
        return images.grad.double()

    right = gradient(images.double(), exact.double())[group.share(TOTAL)]
    theirs = gradient(images, plain)[group.share(TOTAL)]
    ours = gradient(images[group.share(TOTAL)], lambda share: forward(shared, share, total=TOTAL))
    ours /= group.count()  # DDP would average the gradients of the ranks
    assert (ours - right).abs().mean() <= 1.05 * (theirs - right).abs().mean()


def main(folder: str, device: str = "cpu") -> None:
    torch.set_num_threads(1)
    with group.joined(torch.device(device), timeout=60) as place:
        check_exchange()
        check_errors(Path(folder))
        check_statistics_of_bfloat16(place)
        for layout in (torch.contiguous_format, torch.channels_last):
            check_batchnorm(place, torch.float64, 1e-12, layout)
            check_batchnorm(place, torch.float32, 1e-5 if device == "cpu" else 1e-2, layout)  # TF32 on a GPU
            with torch.autocast(place.type, torch.bfloat16):
                check_batchnorm(place, torch.float32, 0.1, layout)


if __name__ == "__main__":
    main(*sys.argv[1:])
