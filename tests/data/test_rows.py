import pytest
import torch

from tnlpad.data.rows import RowLoader

ROWS, LABELS = torch.arange(20.0).view(10, 2), torch.arange(10)


def test_every_sample_once_with_its_own_label():
    loader = RowLoader(ROWS, LABELS, batch_size=4, indices=torch.arange(1, 10), order=torch.Generator().manual_seed(0))
    batches = list(loader)
    assert [len(batch.labels) for batch in batches] == [4, 4, 1]
    assert len(loader) == 3
    index = torch.cat([batch.index for batch in batches])
    assert sorted(index.tolist()) == list(range(1, 10))
    assert index.tolist() != sorted(index.tolist())
    for batch in batches:
        torch.testing.assert_close(batch.images, ROWS[batch.index])
        assert batch.labels.tolist() == batch.index.tolist()


def test_without_an_order_it_is_that_of_the_indices():
    assert torch.cat([batch.index for batch in RowLoader(ROWS, LABELS, batch_size=3)]).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 1, "indices": torch.arange(0)}, "indices are empty"),
    ],
)
def test_mistakes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RowLoader(ROWS, LABELS, **options)
    with pytest.raises(ValueError, match="10 rows but 9 labels"):
        RowLoader(ROWS, LABELS[:9], batch_size=1)
