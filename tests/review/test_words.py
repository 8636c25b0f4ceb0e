import math

import numpy as np
import pytest

from tnlpad.review.words import MAX_WORDS, WordEvidence

TEXTS = ["good"] * 30 + ["bad"] * 30 + ["good"] * 2 + ["bad"] * 2
LABELS = np.array([0] * 30 + [1] * 30 + [1] * 2 + [0] * 2)


def test_the_weight_is_the_smoothed_log_odds():
    found = WordEvidence(TEXTS, LABELS)
    # "good" is in 2 of 32 texts labelled 1, and in 29 of the 31 others labelled 0.
    log_odds = math.log(2.5 / 30.5) - math.log(29.5 / 2.5)
    ((start, end, weight),) = found.spans("good", 0, given=0, suggested=1)
    assert (start, end) == (0, 4)
    assert weight == pytest.approx(math.tanh(log_odds / 2), abs=1e-3)
    ((_, _, other),) = found.spans("Good!", 60, given=1, suggested=0)
    assert other == pytest.approx(math.tanh((math.log(30.5 / 2.5) - math.log(1.5 / 30.5)) / 2), abs=1e-3)


def test_words_without_a_difference_are_not_marked():
    texts = [f"the {'cat' if label else 'dog'} number {row}" for row, label in enumerate(LABELS)]
    words = WordEvidence(texts, LABELS)
    assert [texts[0][start:end] for start, end, _ in words.spans(texts[0], 0, 0, 1)] == ["dog"]
    assert words.spans("the unknown words", 0, 0, 1) == []
    assert words.spans("", 0, 0, 1) == []


def test_a_class_without_other_texts_says_nothing():
    words = WordEvidence(["one", "two", "two"], np.array([0, 1, 1]))
    assert words.spans("one", 0, given=0, suggested=1) == []
    assert words.spans("two", 1, given=1, suggested=5) == []


def test_the_strongest_words_are_marked():
    left, right = " ".join(f"a{chr(97 + k)}" for k in range(20)), " ".join(f"z{chr(97 + k)}" for k in range(20))
    words = WordEvidence([left] * 20 + [right] * 20, np.array([0] * 20 + [1] * 20))
    assert len(words.spans(left + " " + left, 0, 0, 1)) == 2 * MAX_WORDS
