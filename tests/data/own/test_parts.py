import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.parts import part_named


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("Train", "train"),
        ("training", "train"),
        (" valid ", "validation"),
        ("VAL", "validation"),
        ("dev", "validation"),
        ("testing", "test"),
        ("", "train"),
        (None, "train"),
    ],
)
def test_the_words_that_people_use(word, part):
    assert part_named(word, "table") == part


@pytest.mark.parametrize("word", ["fold1", 0, "holdout"])
def test_another_word_is_named_with_the_ones_to_use(word):
    with pytest.raises(DataError, match=rf"table: '{word}' is no part of a dataset. Write train, validation or test"):
        part_named(word, "table")
