from collections import Counter

import numpy as np
import pytest

from tests.data.own_files import class_folders
from tnlpad.data.own.digests import NOWHERE, DigestIndex, Digests
from tnlpad.data.own.image_facts import ImageFacts
from tnlpad.data.own.near_duplicates import paired_by_value
from tnlpad.data.pixels import ImageInfo, probe


def info(number: int, *, width: int = 5, mode: str = "RGB") -> ImageInfo:
    return ImageInfo(width=width, height=3, mode=mode, digest=bytes([number]) * 32, thumbnail=bytes([number]) * 288)


FOUND = [info(1, mode="L"), info(0), "it is damaged", info(0, width=2), info(7, mode="I;16B"), info(7, mode="I;16B")]


def test_facts_come_back_as_they_were():
    facts = ImageFacts.empty(len(FOUND))
    reasons = facts.fill(range(len(FOUND)), FOUND)
    assert reasons == {2: "it is damaged"}
    usable = facts.take(np.array([0, 1, 3, 4, 5]))
    expected = [each for each in FOUND if not isinstance(each, str)]
    assert (list(usable), usable[1:3], usable[-1]) == (expected, expected[1:3], expected[-1])
    assert list(usable.digests) == [each.digest for each in expected]
    assert usable.digests[3:] == [expected[3].digest] * 2
    assert usable.take(np.arange(5)) is usable


def test_counts_are_those_of_the_images():
    facts = ImageFacts.empty(len(FOUND))
    facts.fill(range(len(FOUND)), FOUND)
    usable = facts.take(np.array([0, 1, 3, 4, 5]))
    assert list(usable.modes.items()) == Counter(each.mode for each in usable).most_common()
    assert list(usable.sizes.items()) == Counter((each.width, each.height) for each in usable).most_common()
    assert (usable.side, usable.gray) == (3, False)
    assert usable.take(np.array([0, 3, 4])).gray


def test_a_real_file(tmp_path):
    path = str(class_folders(tmp_path, ("cat",), 1) / "cat" / "0.png")
    found = probe(path)
    facts = ImageFacts.empty(1)
    assert facts.fill([0], [found]) == {}
    assert facts[0] == found


@pytest.mark.parametrize("count", [0, 1, 50])
def test_equal_digests_are_paired_as_other_values_are(count):
    stream = np.random.default_rng(3)
    rows = np.zeros((count, 32), np.uint8)
    rows[:, -1] = stream.integers(0, 12, count)  # they differ in the last byte alone, which may be 0
    digests = Digests(rows)
    assert np.array_equal(paired_by_value(digests), paired_by_value(list(digests)).reshape(2, -1))


def test_an_index_finds_digests():
    digests = Digests(np.random.default_rng(5).integers(0, 256, (40, 32), dtype=np.uint8))
    others = Digests(np.concatenate([digests.rows[[7, 39]], np.zeros((1, 32), np.uint8), digests.rows[[0]]]))
    assert DigestIndex(digests).places(others).tolist() == [7, 39, NOWHERE, 0]
    assert DigestIndex(Digests.of([])).places(others).tolist() == [NOWHERE] * 4
    assert list(Digests.of(list(digests))) == list(digests)
