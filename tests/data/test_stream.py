import gc
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from tnlpad.data.errors import DataError
from tnlpad.data.stream import StreamLoader, decode
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


def test_decode_equals_pillow_by_hand(files):
    path = files.paths[1]
    with Image.open(path) as image:
        scale = 24 / min(image.size)
        width, height = (max(24, round(side * scale)) for side in image.size)
        resized = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))
    top, left = int(0.5 * (height - 20 + 1)), int(0.5 * (width - 20 + 1))
    assert np.array_equal(decode(path, 24, 20), resized[top : top + 20, left : left + 20].transpose(2, 0, 1))


@pytest.mark.parametrize(("top", "left"), [(0.0, 0.0), (0.999999, 0.999999)])
def test_every_crop_lies_within_the_image(files, top, left):
    for path in files.paths:
        assert decode(path, 24, 20, top, left).shape == (3, 20, 20)


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


def test_images_are_flipped_and_moved_in_training(files):
    loader = stream(files, augment=torch_stream(3, "augment"), indices=torch.zeros(6, dtype=torch.long), batch_size=6)
    (batch,) = loader
    assert len({image.numpy().tobytes() for image in batch.images}) > 1


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
        ({"labels": torch.zeros(3)}, "20 images but 3 labels"),
        ({"indices": torch.arange(2), "drop_last": True}, "no batch of 6"),
    ],
)
def test_bad_arguments_are_named(files, options, message):
    with pytest.raises(ValueError, match=message):
        stream(files, **options)
