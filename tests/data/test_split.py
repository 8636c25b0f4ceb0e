import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnlpad.data.split import legacy_split, split
from tnlpad.rng import numpy_stream


@given(size=st.integers(2, 2000), fraction=st.floats(0, 0.5), seed=st.integers(0, 2**32 - 1))
def test_parts_are_disjoint_and_complete_and_a_function_of_the_seed(size, fraction, seed):
    for draw in (
        lambda: split(size, fraction, numpy_stream(seed, "split")),
        lambda: legacy_split(size, fraction, seed),
    ):
        a, b = draw(), draw()
        assert np.array_equal(np.sort(np.concatenate([a.train, a.validation])), np.arange(size))
        assert np.array_equal(a.train, b.train)
        assert np.array_equal(a.validation, b.validation)
        assert abs(len(a.validation) - fraction * size) < 1


@pytest.mark.parametrize(("size", "train"), [(50_000, 45_000), (60_000, 54_000), (10, 9), (1797, 1617)])
def test_a_tenth_is_held_out(size, train):
    assert len(split(size, 0.1, numpy_stream(1, "split")).train) == train
    assert len(legacy_split(size, 0.1, 1).train) == train


@pytest.mark.parametrize(("fraction", "train"), [(0.8, 2), (0.9, 1)])
def test_a_share_that_is_no_binary_fraction_loses_no_sample(fraction, train):
    assert len(split(10, fraction, numpy_stream(1, "split")).train) == train


def test_the_authors_stream():
    expected = [3, 16, 6, 10, 2, 14, 4, 17, 7, 1, 13, 0, 19, 18, 9, 15, 8, 12]
    drawn = legacy_split(20, 0.1, seed=1)
    assert drawn.train.tolist() == expected
    assert drawn.validation.tolist() == [5, 11]


def test_no_global_generator_is_touched_and_seeds_differ():
    before = np.random.get_state()[1].copy()
    splits = [split(100, 0.1, numpy_stream(seed, "split")).validation.tolist() for seed in (1, 2)]
    legacy_split(100, 0.1, 3)
    assert np.array_equal(before, np.random.get_state()[1])
    assert splits[0] != splits[1]


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_a_bad_fraction_is_named(fraction):
    with pytest.raises(ValueError, match="validation_fraction"):
        split(10, fraction, numpy_stream(1, "split"))


def test_nothing_left_to_train_on():
    with pytest.raises(ValueError, match="No training sample"):
        split(1, 0.5, numpy_stream(1, "split"))
