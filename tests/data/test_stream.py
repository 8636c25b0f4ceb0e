import gc
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from tnlpad.data.stream import StreamImages, StreamLoader, decode
from tnlpad.errors import DataError
from tnlpad.rng import torch_stream
from tnlpad.types import ImageFiles

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    paths = []
    for i in range(20):
        size = (int(generator.integers(30, 60)), int(generator.integers(30, 60)))
        pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        paths.append(str(folder / f"{i}.{'png' if i % 2 else 'jpg'}"))
        Image.fromarray(pixels).save(paths[-1])
    return ImageFiles(paths=tuple(paths), labels=np.arange(20) % 4, class_names=("a", "b", "c", "d"))


def stream(files, **options):
    settings = {"batch_size": 6, "resize": 24, "crop": 20, "mean": MEAN, "std": STD, "workers": 1, **options}
    return StreamLoader(files, **settings)


def trained(files, seed=1, **options):
    return stream(files, order=torch_stream(seed, "order"), augment=torch_stream(seed, "augment"), **options)


def resized(path):
    with Image.open(path) as image:
        scale = 24 / min(image.size)
        width, height = (round(side * scale) for side in image.size)
        return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


def test_decode_equals_pillow_by_hand(files):
    path = files.paths[1]
    whole = resized(path)
    top, left = (int(0.5 * (side - 20 + 1)) for side in whole.shape[1:])
    assert np.array_equal(decode(path, 24, 20), whole[:, top : top + 20, left : left + 20])


def test_a_crop_may_touch_every_border(files):
    for path in files.paths[1::2]:
        whole, nearly_one = resized(path), 0.999999
        assert np.array_equal(decode(path, 24, 20, 0.0, nearly_one), whole[:, :20, -20:])
        assert np.array_equal(decode(path, 24, 20, nearly_one, 0.0), whole[:, -20:, :20])


def test_flip_mirrors_left_to_right(files):
    assert np.array_equal(decode(files.paths[0], 24, 20, flip=True), decode(files.paths[0], 24, 20)[:, :, ::-1])


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P", "1", "LA"])
def test_other_modes_become_rgb(tmp_path, mode):
    path = tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    Image.new("RGB", (30, 40), (200, 10, 10)).convert(mode).save(path)
    assert decode(str(path), 24, 20).shape == (3, 20, 20)


def test_evaluation_is_the_centre_in_order(files):
    batches = list(stream(files))
    assert torch.cat([b.index for b in batches]).tolist() == list(range(20))
    expected = (torch.tensor(decode(files.paths[7], 24, 20)) / 255 - 0.5) / 0.25
    torch.testing.assert_close(batches[1].images[1], expected, rtol=1e-5, atol=1e-6)
    assert batches[1].labels.tolist() == [2, 3, 0, 1, 2, 3]
    assert [len(b.index) for b in batches] == [6, 6, 6, 2]


def test_training_batches_do_not_depend_on_the_number_of_workers(files):
    alone = [(b.index, b.images) for b in trained(files)]
    together = trained(files, workers=3)
    for epoch in range(2):
        batches = [(b.index, b.images) for b in together]
        same = all(torch.equal(i, j) and torch.equal(x, y) for (i, x), (j, y) in zip(alone, batches, strict=True))
        assert same == (epoch == 0)  # the second epoch is drawn anew


def test_a_training_batch_by_hand(files):
    """Order and augmentation from a stream each: top, left, and whether to mirror."""
    (batch,) = trained(files, indices=torch.arange(3, 15), batch_size=12)
    order = torch.arange(3, 15)[torch.randperm(12, generator=torch_stream(1, "order"))]
    assert torch.equal(batch.index, order)
    drawn = torch.rand(12, 3, generator=torch_stream(1, "augment")).tolist()
    for image, sample, (top, left, mirror) in zip(batch.images, order.tolist(), drawn, strict=True):
        pixels = torch.tensor(decode(files.paths[sample], 24, 20, top, left, mirror < 0.5).copy())
        torch.testing.assert_close(image, (pixels / 255 - 0.5) / 0.25, rtol=1e-5, atol=1e-6)


def test_a_short_last_batch_may_be_dropped(files):
    loader = trained(files, drop_last=True)
    assert [len(batch.index) for batch in loader] == [6, 6, 6]
    assert len(loader) == 3


@pytest.mark.parametrize(("flip", "ways"), [(True, 2), (False, 1)])
def test_of_a_square_as_large_as_the_crop_only_the_flip_is_random(tmp_path, flip, ways):
    path = tmp_path / "square.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(path)
    square = ImageFiles(paths=(str(path),) * 12, labels=np.zeros(12, dtype=np.int64), class_names=("a",))
    (batch,) = stream(square, augment=torch_stream(3, "augment"), resize=20, batch_size=12, flip=flip)
    assert len({image.numpy().tobytes() for image in batch.images}) == ways


# Epochs that are a part of the data


def unequal(files):
    """Of the first class 14, of the second 4, of the third 2, of the fourth none."""
    return torch.tensor([0] * 14 + [1] * 4 + [2] * 2)


def test_a_part_of_the_data_has_as_many_of_every_class_as_there_are(files):
    labels = unequal(files)
    loader = stream(files, labels=labels, order=torch_stream(1, "order"), samples_per_epoch=9, batch_size=4)
    epochs = [torch.cat([batch.index for batch in loader]) for _ in range(30)]
    for index in epochs:
        assert torch.bincount(labels[index]).tolist() == [3, 3, 2]
        assert len(index.unique()) == 8
    assert len(loader) == 2
    assert set(torch.cat(epochs).tolist()) == set(range(20))  # every sample has its turn
    firsts = [labels[index[0]].item() for index in epochs]
    assert set(firsts) == {0, 1, 2}  # the classes are mixed


def test_classes_that_do_not_occur_have_no_share(files):
    labels = torch.tensor([0] * 14 + [2] * 6)
    loader = stream(files, labels=labels, order=torch_stream(1, "order"), samples_per_epoch=6)
    (batch,) = loader
    assert torch.bincount(batch.labels).tolist() == [3, 0, 3]


def test_a_part_that_is_larger_than_the_data_is_all_of_it(files):
    both = [
        torch.cat([batch.index for batch in stream(files, order=torch_stream(1, "order"), samples_per_epoch=samples)])
        for samples in (None, 1000)
    ]
    assert torch.equal(*both)


def test_a_part_of_the_samples_asked_for(files):
    loader = stream(
        files, labels=unequal(files), indices=torch.arange(10, 20), order=torch_stream(1, "order"), samples_per_epoch=3
    )
    (batch,) = loader
    assert batch.labels.sort().values.tolist() == [0, 1, 2]
    assert batch.index.min() >= 10


def test_stopping_early_leaves_no_thread_behind(files):
    before = threading.active_count()
    for _ in stream(files, workers=2, batch_size=2):
        break
    gc.collect()
    assert threading.active_count() == before


def test_other_labels_and_a_part_of_the_data(files):
    labels = torch.full((20,), 9)
    (batch,) = stream(files, labels=labels, indices=torch.tensor([4, 2]))
    assert batch.index.tolist() == [4, 2]
    assert batch.labels.tolist() == [9, 9]


@pytest.mark.parametrize("content", [b"", b"not an image", b"\xff\xd8\xff\xe0 broken", None])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_damaged_image_names_the_file(tmp_path, content, workers):
    path = tmp_path / "damaged.jpg"
    if content is not None:
        path.write_bytes(content)
    files = ImageFiles(paths=(str(path),), labels=np.array([0]), class_names=("a",))
    with pytest.raises(DataError, match=r"damaged\.jpg"):
        list(stream(files, workers=workers))


def test_a_truncated_image_names_the_file(files, tmp_path):
    path = tmp_path / "short.png"
    with open(files.paths[1], "rb") as original:
        path.write_bytes(original.read()[:200])
    with pytest.raises(DataError, match=r"short\.png"):
        decode(str(path), 24, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"crop": 30}, "crop=30, resize=24"),
        ({"workers": 0}, "workers=0"),
        ({"samples_per_epoch": 4}, "samples_per_epoch=4"),
        ({"samples_per_epoch": 0, "order": torch.Generator()}, "samples_per_epoch=0"),
        ({"labels": torch.zeros(3)}, "20 images but 3 labels"),
        ({"indices": torch.arange(2), "drop_last": True}, "no batch of 6"),
    ],
)
def test_bad_arguments_are_named(files, options, message):
    with pytest.raises(ValueError, match=message):
        stream(files, **options)


# Several ranks


@pytest.mark.parametrize(("rank", "rows"), [(0, slice(0, 3)), (1, slice(3, 6))])
def test_a_rank_decodes_its_share_of_a_batch_and_knows_the_rest(files, monkeypatch, rank, rows):
    whole = list(trained(files, drop_last=True))
    decoded = []
    monkeypatch.setattr("tnlpad.data.stream.decode", lambda path, *rest: decoded.append(path) or decode(path, *rest))
    monkeypatch.setattr(
        "tnlpad.data.stream.group.share", lambda total: slice(rank * total // 2, (rank + 1) * total // 2)
    )
    for batch, expected in zip(trained(files, drop_last=True, workers=2), whole, strict=True):
        assert torch.equal(batch.index, expected.index)
        assert torch.equal(batch.labels, expected.labels)
        assert torch.equal(batch.images, expected.images[rows])
    assert len(decoded) == 9


def test_ranks_of_a_machine_share_the_memory_of_the_cache(files, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    images = images_of(files, cache_bytes=10 * 3 * 20 * 20)
    images(torch.arange(20))
    assert len(images.cache) == 5


# Images by index


def images_of(files, **options):
    return StreamImages(files, **{"resize": 24, "crop": 20, "mean": MEAN, "std": STD, "workers": 2, **options})


@pytest.mark.parametrize("kept_images", [0, 5, 100])
def test_images_by_index_are_those_of_the_loader_without_augmentation(files, kept_images):
    images = images_of(files, cache_bytes=kept_images * 3 * 20 * 20)
    expected = torch.cat([batch.images for batch in stream(files)])
    for index in (torch.arange(20), torch.tensor([7, 3, 3, 19, 7]), torch.arange(20).flip(0)):
        assert torch.equal(images(index), expected[index])
    assert len(images.cache) == min(kept_images, 20)


def test_what_is_kept_is_decoded_once(files, monkeypatch):
    paths = []
    monkeypatch.setattr("tnlpad.data.stream.decode", lambda path, *size: paths.append(path) or decode(path, *size))
    images = images_of(files)
    images(torch.tensor([4, 2, 4]))
    images(torch.tensor([2, 9]))
    assert sorted(paths) == sorted(files.paths[i] for i in (2, 4, 9))


def test_a_damaged_image_among_those_asked_for(files, tmp_path):
    (tmp_path / "damaged.jpg").write_bytes(b"none")
    paths = (*files.paths[:3], str(tmp_path / "damaged.jpg"))
    images = images_of(ImageFiles(paths=paths, labels=np.zeros(4, dtype=np.int64), class_names=("a",)))
    assert len(images(torch.arange(3))) == 3
    before = threading.active_count()
    with pytest.raises(DataError, match=r"damaged\.jpg: cannot be read as an image"):
        images(torch.arange(4))
    assert threading.active_count() == before
