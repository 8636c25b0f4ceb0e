"""Outlier factors of many lists at once against scikit-learn's, list by list."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import LocalOutlierFactor

from tnlpad.methods.lof import local_outlier_factors, outliers


def oracle(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = LocalOutlierFactor(n_neighbors=2, contamination=0.1)
    flagged = model.fit_predict(row.reshape(-1, 1)) == -1
    return -model.negative_outlier_factor_, flagged


@pytest.mark.parametrize("length", [5, 6, 7, 8, 12, 21])
def test_factors_and_outliers_are_scikit_learns(length):
    rows = np.random.default_rng(length).exponential(size=(60, length))
    everything = torch.ones(60, length, dtype=torch.bool)
    factors = local_outlier_factors(torch.from_numpy(rows), everything).numpy()
    flags = outliers(torch.from_numpy(rows), everything).numpy()
    expected = [oracle(row) for row in rows]
    np.testing.assert_allclose(factors, [factor for factor, _ in expected], rtol=1e-9)
    np.testing.assert_array_equal(flags, [flag for _, flag in expected])
    assert flags.any()
    assert not flags.all(axis=1).any()


def test_values_that_nearly_coincide_have_scikit_learns_factors():
    rows = np.random.default_rng(0).exponential(size=(20, 7)) * 1e-9
    factors = local_outlier_factors(torch.from_numpy(rows), torch.ones(20, 7, dtype=torch.bool))
    np.testing.assert_allclose(factors, [oracle(row)[0] for row in rows], rtol=1e-6)


def test_gaps_do_not_count():
    generator = np.random.default_rng(0)
    rows = generator.exponential(size=(40, 8))
    counts = generator.integers(3, 9, size=40)
    present = np.arange(8) < counts[:, None]
    flags = outliers(torch.from_numpy(np.where(present, rows, 1e6)), torch.from_numpy(present)).numpy()
    for row, flag, count in zip(rows, flags, counts, strict=True):
        expected = oracle(row[:count])[1] if count >= 5 else np.zeros(count, dtype=bool)
        np.testing.assert_array_equal(flag[:count], expected)
        assert not flag[count:].any()
    assert (counts < 5).any()
    assert flags.any()


def test_equal_values_are_no_outliers():
    assert not outliers(torch.ones(2, 7), torch.ones(2, 7, dtype=torch.bool)).any()


def test_a_value_far_from_the_others_is_one():
    row = torch.tensor([[1.0, 1.1, 9.0, 1.25, 1.45]])
    assert outliers(row, torch.ones(1, 5, dtype=torch.bool)).tolist() == [[False, False, True, False, False]]
