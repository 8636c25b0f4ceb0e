import pytest
import torch

from benchmarks.head_settings import MixingHead
from tnlpad.networks.head import Head, head


def test_shapes():
    network = head(num_classes=3, in_channels=5)
    assert network(torch.rand(4, 5)).shape == (4, 3)
    assert Head(in_channels=5, hidden=7).features(torch.rand(4, 5)).shape == (4, 7)


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="Samples have 4 numbers, but this head takes 5"):
        head(in_channels=5)(torch.rand(1, 4))


def test_a_sample_is_evaluated_by_itself():
    network = head(in_channels=6).eval()
    rows = torch.rand(6, 6)
    torch.testing.assert_close(network(rows)[:2], network(rows[:2]))


@pytest.mark.parametrize("mixed", [0.0, 0.2, 0.5])
def test_the_benchmark_mixes_at_most_that_share_of_another_row(mixed):
    network = MixingHead(in_channels=8, hidden=8, dropout=0.0, mixed=mixed)
    network.hidden = torch.nn.Identity()
    rows = torch.eye(8)
    seen = torch.stack([network.features(rows) for _ in range(20)])
    own = seen.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(seen.sum(2), torch.ones(20, 8))
    assert own.min() >= 1 - mixed
    assert (own.min() < 1) == (mixed > 0)
    torch.testing.assert_close(network.eval().features(rows), rows)
