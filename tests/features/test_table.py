"""The encoder of tables, against the fitted ColumnTransformer of scikit-learn."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.counted_names import CountedName
from tnlpad.data.own.mixed import MixedTable
from tnlpad.errors import DataError
from tnlpad.features.encoder import ARRAYS, DESCRIPTION, load_encoder
from tnlpad.features.table import MAX_CATEGORIES, TableEncoder, as_array, column_transformer


def mixed(numbers, categories, names=("a", "b", "c", "d", "e")):
    numbers = np.array(numbers, np.float32)
    columns = numbers.shape[1]
    return MixedTable(
        number_columns=names[:columns],
        numbers=numbers,
        category_columns=tuple(f"k{place}" for place in range(len(categories))),
        categories=tuple(list(values) for values in categories),
    )


def random_table(rows=200, seed=0, values="abcdefgh"):
    """Numbers on different scales, one column without gaps and one constant; categories, some rare, some missing."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(rows, 5)) * [1, 1000, 1e-3, 1, 0] + [0, 5000, 0, 1e6, 7]
    numbers[random.random((rows, 5)) < [0.2, 0.1, 0, 0.05, 0]] = np.nan
    common = random.choice([*values, None], rows, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.01, 0.01, 0.01, 0.02])
    return mixed(numbers, [common, random.choice(["yes", "no"], rows), random.choice(["x", None], rows)])


@pytest.mark.parametrize("rows", [30, 200])
def test_it_does_what_the_column_transformer_does(rows):
    train, other = random_table(rows), random_table(rows=50, seed=1, values="abcdxyzw")
    encoder = TableEncoder.fit(train)
    theirs = column_transformer(train).fit(as_array(train))
    assert len(encoder.feature_names) == encoder.dimensions
    for table in (train, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # values that were not in training
            expected = theirs.transform(as_array(table)).astype(np.float64)
        found = encoder.transform(table)
        assert (found.dtype, found.shape) == (np.float32, expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_features_by_hand():
    train = mixed([[1, 5], [np.nan, 5], [3, 5], [8, 5]], [["x", "y", "x", None], ["u", "u", "v", "v"]])
    encoder = TableEncoder.fit(train)
    assert encoder.feature_names == ("a", "b", "a is missing", "k0 = x", "k0 = other", "k1 = u", "k1 = v")
    new = mixed([[np.nan, np.nan]], [["z"], ["z"]])
    (row,) = encoder.transform(new).tolist()
    # Filled with the median 3; 1 3 3 8 have mean 3.75 and deviation 2.586. A gap in b, which had none, is not marked.
    assert row == pytest.approx([-0.29, 0, 1.732, 0, 1, 0, 0], abs=1e-3)


def test_rare_and_unknown_values_share_a_feature_and_there_are_not_too_many():
    names = [f"v{place}" for place in range(100) for _ in range(5 + place % 3)] + ["once"]
    train = mixed(np.arange(len(names))[:, None], [names])
    encoder = TableEncoder.fit(train)
    assert encoder.dimensions == 1 + MAX_CATEGORIES
    rows = encoder.transform(train.take([len(names) - 1]))
    assert rows[0, -1] == 1
    unknown = encoder.transform(mixed([[1], [1]], [["new", None]]))
    assert unknown[:, -1].tolist() == [1, 1]
    assert unknown[:, 1:-1].sum() == 0


def test_a_column_without_any_number_in_training_is_left_out():
    train = mixed([[np.nan, 1], [np.nan, 2]], [])
    encoder = TableEncoder.fit(train)
    assert (encoder.columns, encoder.feature_names) == (("b",), ("b",))
    assert encoder.transform(mixed([[7, 1]], [])).tolist() == [[-1]]
    with pytest.raises(DataError, match="no column of the training rows has a number"):
        TableEncoder.fit(mixed([[np.nan], [np.nan]], []))


def test_columns_are_taken_by_name():
    train = random_table()
    encoder = TableEncoder.fit(train)
    turned = MixedTable(
        number_columns=train.number_columns[::-1],
        numbers=train.numbers[:, ::-1],
        category_columns=("more", *train.category_columns[::-1]),
        categories=(["?"] * len(train), *train.categories[::-1]),
    )
    np.testing.assert_array_equal(encoder.transform(turned), encoder.transform(train))
    with pytest.raises(DataError, match="the table has no column 'd', which this run was trained on"):
        encoder.transform(mixed(np.ones((1, 3)), [["a"], ["yes"], ["x"]]))


def test_columns_of_wide_tables_are_not_searched_for_one_after_the_other():
    numbers, categories = np.random.default_rng(0).normal(size=(4, 200)), ["xyxy"] * 100
    names = [CountedName(f"{kind}{place}") for kind, count in (("a", 200), ("k", 100)) for place in range(count)]
    table = replace(mixed(numbers, categories, names), category_columns=tuple(names[200:]))
    turned = replace(
        table,
        number_columns=tuple(names[199::-1]),
        numbers=table.numbers[:, ::-1],
        category_columns=tuple(names[:199:-1]),
    )
    encoder = TableEncoder.fit(table)
    CountedName.compared = 0
    features = encoder.transform(turned)
    assert encoder.unseen(turned) == {}
    assert CountedName.compared < 10 * len(names)
    assert np.array_equal(features, encoder.transform(table))


def test_it_is_stored_without_a_pickle_and_read_exactly(tmp_path):
    train = random_table()
    encoder = TableEncoder.fit(train)
    encoder.to_files(tmp_path / "encoder")
    again = load_encoder(tmp_path / "encoder")
    assert isinstance(again, TableEncoder)
    assert again.feature_names == encoder.feature_names
    np.testing.assert_array_equal(again.transform(train), encoder.transform(train))
    assert {path.name for path in (tmp_path / "encoder").iterdir()} == {DESCRIPTION, ARRAYS}
    with np.load(tmp_path / "encoder" / ARRAYS, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays)


@pytest.mark.parametrize("numbers", [[], [[1], [2], [2]]])
def test_tables_of_one_kind_of_columns(tmp_path, numbers):
    train = mixed(np.empty((4, 0)), [list("xxyy")]) if not numbers else mixed(numbers, [])
    TableEncoder.fit(train).to_files(tmp_path)
    found = TableEncoder.from_files(tmp_path).transform(train)
    assert found.shape == ((4, 2) if not numbers else (3, 1))


def test_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match="the encoder of the samples cannot be read"):
        load_encoder(tmp_path)
    TableEncoder.fit(random_table()).to_files(tmp_path)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    for change, message in (
        ({"kind": "strange"}, "kind 'strange', which is unknown"),
        ({"number_columns": ["a"]}, "is damaged"),
        ({"values": None}, "is damaged"),
        ({"pooled": [True]}, "is damaged"),
    ):
        (tmp_path / DESCRIPTION).write_text(json.dumps(description | change))
        with pytest.raises(DataError, match=message):
            load_encoder(tmp_path)
    (tmp_path / DESCRIPTION).write_text("[]")
    with pytest.raises(DataError, match="is damaged"):
        load_encoder(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps(description))
    (tmp_path / ARRAYS).write_bytes(b"PK")
    with pytest.raises(DataError, match="cannot be read"):
        load_encoder(tmp_path)
