import pytest
import torch

from tnlpad.data.augment import CUT_COLUMN, CUT_ROW, FLIP, LEFT, TOP, Augmentation, Augmenter, draw

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
IMAGES = torch.randint(0, 256, (20, 3, 9, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
FULL = Augmentation(crop_padding=2, flip=True, cutout=4)


def cutout(side):
    return Augmentation(cutout=side)


def by_hand(image: torch.Tensor, row: torch.Tensor, augmentation: Augmentation) -> torch.Tensor:
    """One image, pixel by pixel in words a person would use."""
    p = augmentation.crop_padding
    canvas = torch.zeros(3, 9 + 2 * p, 7 + 2 * p)
    canvas[:, p : p + 9, p : p + 7] = image
    cropped = canvas[:, row[TOP] : row[TOP] + 9, row[LEFT] : row[LEFT] + 7]
    if augmentation.flip and row[FLIP]:
        cropped = cropped.flip(2)
    out = (cropped / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    for r in range(9):
        for c in range(7):
            side = range(-(augmentation.cutout // 2), augmentation.cutout - augmentation.cutout // 2)
            if r - int(row[CUT_ROW]) in side and c - int(row[CUT_COLUMN]) in side:
                out[:, r, c] = 0
    return out


@pytest.mark.parametrize(
    "augmentation",
    [Augmentation(), Augmentation(crop_padding=2), Augmentation(flip=True), *map(cutout, (1, 3, 4)), FULL],
)
def test_whole_batches_equal_one_image_at_a_time(augmentation):
    rows = draw(augmentation, 20, 9, 7, torch.Generator().manual_seed(1))
    index = torch.randperm(20, generator=torch.Generator().manual_seed(2))
    batch = Augmenter(IMAGES, augmentation, MEAN, STD)(index, rows)
    expected = torch.stack([by_hand(IMAGES[i].float(), row, augmentation) for i, row in zip(index, rows, strict=True)])
    torch.testing.assert_close(batch, expected, rtol=1e-5, atol=1e-6)


def test_plain_images_are_not_augmented():
    plain = Augmenter(IMAGES, FULL, MEAN, STD).plain(torch.arange(20))
    expected = (IMAGES / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(plain, expected, rtol=1e-5, atol=1e-6)


def test_decisions_cover_their_range_evenly():
    rows = draw(FULL, 50_000, 9, 7, torch.Generator().manual_seed(0))
    for column, choices in ((TOP, 5), (LEFT, 5), (FLIP, 2), (CUT_ROW, 9), (CUT_COLUMN, 7)):
        counts = torch.bincount(rows[:, column], minlength=choices)
        assert len(counts) == choices
        assert (counts - 50_000 / choices).abs().max() < 5 * (50_000 / choices) ** 0.5


def test_decisions_do_not_change_between_versions():
    """Every run's images depend on them: change this only when the numbers of a run change."""
    rows = draw(FULL, 3, 9, 7, torch.Generator().manual_seed(0))
    assert rows.tolist() == [[4, 3, 0, 8, 4], [3, 0, 0, 5, 2], [2, 0, 0, 5, 3]]


def test_one_augmentation_more_leaves_the_others_alone():
    a = draw(Augmentation(crop_padding=2), 50, 9, 7, torch.Generator().manual_seed(0))
    b = draw(FULL, 50, 9, 7, torch.Generator().manual_seed(0))
    assert torch.equal(a[:, [TOP, LEFT]], b[:, [TOP, LEFT]])
    assert not a[:, FLIP].any()
    assert b[:, FLIP].any()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Augmentation(crop_padding=-1), "crop_padding=-1"),
        (lambda: Augmentation(cutout=-2), "cutout=-2"),
        (lambda: Augmenter(IMAGES.float(), FULL, MEAN, STD), "must be uint8"),
        (lambda: Augmenter(IMAGES[0], FULL, MEAN, STD), "N × C × H × W"),
        (lambda: Augmenter(IMAGES, FULL, MEAN[:2], STD), "there are 3"),
        (lambda: Augmenter(IMAGES, FULL, MEAN, (0.1, 0.0, 0.1)), "positive deviation"),
        (lambda: Augmenter(IMAGES, FULL, MEAN, STD[:2]), "positive deviation"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
