import pytest
import torch

from tnlpad.data.augment import Augmentation, draw
from tnlpad.data.loader import DeviceLoader, RowLoader
from tnlpad.rng import torch_stream

IMAGES = (
    torch.arange(50, dtype=torch.uint8).view(50, 1, 1, 1).expand(50, 1, 6, 6).contiguous()
)  # image i is filled with i
LABELS = torch.arange(50) % 7


def loader(**options):
    settings = {"batch_size": 8, "mean": (0.0,), "std": (1 / 255,), **options}
    return DeviceLoader(IMAGES, LABELS, **settings)


def shuffled(seed=1, **options):
    augmentation = Augmentation(crop_padding=1, flip=True)
    order, augment = torch_stream(seed, "order"), torch_stream(seed, "augment")
    return loader(order=order, augment=augment, augmentation=augmentation, **options)


def test_index_images_and_labels_belong_together():
    batches = list(loader(order=torch_stream(1, "order"), indices=torch.arange(10, 40)))
    index = torch.cat([b.index for b in batches])
    assert sorted(index.tolist()) == list(range(10, 40))
    assert index.tolist() != list(range(10, 40))
    for batch in batches:
        assert torch.equal(batch.images, batch.index.float().view(-1, 1, 1, 1).expand(-1, 1, 6, 6))
        assert torch.equal(batch.labels, LABELS[batch.index])


def test_without_a_stream_the_order_is_that_of_the_indices():
    index = torch.tensor([5, 3, 9])
    (batch,) = loader(indices=index)
    assert torch.equal(batch.index, index)


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [8] * 6 + [2]), (True, [8] * 6)])
def test_the_last_short_batch_is_kept_or_dropped(drop_last, sizes):
    batches = loader(drop_last=drop_last)
    assert [len(b.labels) for b in batches] == sizes
    assert len(batches) == len(sizes)


def test_one_sample_left_over_is_a_batch():
    batches = loader(indices=torch.arange(9))
    assert [len(b.labels) for b in batches] == [8, 1]
    assert len(batches) == 2


def test_the_plan_is_drawn_from_both_streams_and_for_the_shape_of_the_images():
    augmentation = Augmentation(crop_padding=2, flip=True, cutout=2)
    images = torch.zeros(50, 1, 4, 9, dtype=torch.uint8)
    order, augment = torch_stream(1, "order"), torch_stream(1, "augment")
    streams = {"order": order, "augment": augment, "augmentation": augmentation}
    plan = DeviceLoader(images, LABELS, batch_size=8, mean=(0.0,), std=(1.0,), **streams).plan()
    assert torch.equal(plan[:, 0], torch.randperm(50, generator=torch_stream(1, "order")))
    assert torch.equal(plan[:, 1:], draw(augmentation, 50, 4, 9, torch_stream(1, "augment")))


def test_epochs_differ_and_are_a_function_of_the_seed():
    a, b, c = shuffled(), shuffled(), shuffled(seed=2)
    first, second = [[batch.images for batch in a] for _ in range(2)]
    again = [batch.images for batch in b]
    other = [batch.images for batch in c]
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(first, other, strict=True))


def test_the_augmentation_does_not_change_the_order():
    plain = loader(order=torch_stream(1, "order"))
    assert [b.index.tolist() for b in plain] == [b.index.tolist() for b in shuffled()]


def test_no_global_generator_is_touched():
    state = torch.get_rng_state()
    list(shuffled())
    assert torch.equal(state, torch.get_rng_state())


def test_a_batch_is_a_function_of_its_rows():
    source = shuffled()
    plan = source.plan()
    rows = plan[16:24]
    assert torch.equal(source.batch(rows).images, source.batch(rows.clone()).images)
    assert torch.equal(source.batch(rows).index, rows[:, 0])


def test_memory_format():
    (batch, *_) = loader(memory_format=torch.channels_last)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"indices": torch.tensor([50])}, r"0\.\.49 exist"),
        ({"indices": torch.tensor([], dtype=torch.long)}, "indices are empty"),
        ({"indices": torch.arange(3), "drop_last": True}, "leaves no batch of 8"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        loader(**options)


def test_labels_must_match_images():
    with pytest.raises(ValueError, match="50 samples but 49 labels"):
        DeviceLoader(IMAGES, LABELS[:-1], batch_size=8, mean=(0.0,), std=(1.0,))


ROWS, ROWS_LABELS = torch.arange(20.0).view(10, 2), torch.arange(10)


def test_every_sample_once_with_its_own_label():
    loader = RowLoader(
        ROWS, ROWS_LABELS, batch_size=4, indices=torch.arange(1, 10), order=torch.Generator().manual_seed(0)
    )
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
    assert torch.cat([batch.index for batch in RowLoader(ROWS, ROWS_LABELS, batch_size=3)]).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 1, "indices": torch.arange(0)}, "indices are empty"),
    ],
)
def test_mistakes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RowLoader(ROWS, ROWS_LABELS, **options)
    with pytest.raises(ValueError, match="10 samples but 9 labels"):
        RowLoader(ROWS, ROWS_LABELS[:9], batch_size=1)
