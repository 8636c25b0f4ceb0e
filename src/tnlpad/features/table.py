"""Encode rows of a table as numbers: gaps filled in and marked, categories as one column per value, standardised.

scikit-learn's `ColumnTransformer` is fitted, and what it learned is kept as plain arrays, on which `transform` works.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.mixed import MixedTable
from tnlpad.errors import DataError
from tnlpad.features.encoder import damaged, read_encoder, write_encoder
from tnlpad.schema import Schema

MIN_FREQUENCY, FEW_ROWS = 5, 100  # values of fewer rows are pooled; with few rows, only those of one row
MAX_CATEGORIES = 50  # per column
Value = str | None  # a category; None where it is missing
DESCRIBED: Schema = {
    "number_columns": list[str],
    "category_columns": list[str],
    "values": list[list[str | None]],
    "pooled": list[bool],
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TableEncoder:
    """A fitted encoder of tables.

    Args:
        number_columns: Columns of numbers that had at least one number, and are encoded.
        medians: Number that a gap in each of them is filled with.
        marked: Places of those among them that had gaps: a further feature marks the gaps.
        mean, scale: Mean and standard deviation of these features, first the numbers, then the marks.
        category_columns: Columns of categories.
        values: Values of each category column that have a feature of their own.
        pooled: Whether other values of the column share a feature, because some were too rare in training.
    """

    kind: ClassVar[str] = "table"
    number_columns: tuple[str, ...]
    medians: NDArray[np.float64]
    marked: NDArray[np.int64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    category_columns: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    pooled: tuple[bool, ...]

    @classmethod
    def fit(cls, table: MixedTable) -> "TableEncoder":
        """Fit on the training rows.

        Raises:
            DataError: No column has a value.
        """
        if not _used_numbers(table) and not table.category_columns:
            raise DataError("no column of the training rows has a number or a category.")
        fitted = column_transformer(table).fit(as_array(table)).named_transformers_
        medians = marked = mean = scale = np.empty(0)
        if "numbers" in fitted:
            imputer, scaler = (step for _, step in fitted["numbers"].steps)
            medians, mean, scale = imputer.statistics_, scaler.mean_, scaler.scale_
            marked = imputer.indicator_.features_
        values: list[tuple[Value, ...]] = []
        pooled: list[bool] = []
        if "categories" in fitted:
            encoder = fitted["categories"]
            for found, rare in zip(encoder.categories_, encoder.infrequent_categories_, strict=True):
                rare_values = set() if rare is None else set(rare.tolist())
                values.append(tuple(value for value in found.tolist() if value not in rare_values))
                pooled.append(rare is not None)
        return cls(
            number_columns=tuple(table.number_columns[place] for place in _used_numbers(table)),
            medians=medians,
            marked=marked.astype(np.int64),
            mean=mean,
            scale=scale,
            category_columns=table.category_columns,
            values=tuple(values),
            pooled=tuple(pooled),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that `transform` needs; `categories` of `open_dataset` are the `category_columns`."""
        return (*self.number_columns, *self.category_columns)

    @property
    def dimensions(self) -> int:
        """Number of features per row."""
        return len(self.mean) + sum(map(len, self.values)) + sum(self.pooled)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature, such as `age`, `age is missing`, `city = Rome`, `city = other`."""
        names = [*self.number_columns, *(f"{self.number_columns[place]} is missing" for place in self.marked)]
        for column, values, pooled in zip(self.category_columns, self.values, self.pooled, strict=True):
            names += [f"{column} is missing" if value is None else f"{column} = {value}" for value in values]
            names += [f"{column} = other"] if pooled else []
        return tuple(names)

    def transform(self, table: MixedTable) -> NDArray[np.float32]:
        """Return the features of rows. A value that was not in training counts as a rare one, or as none.

        Raises:
            DataError: A column is missing.
        """
        known, categories = set(table.columns), table.by_category
        if missing := [name for name in self.columns if name not in known]:
            raise DataError(f"the table has no column {missing[0][:80]!r}, which this run was trained on. Add it.")
        pieces = [self._numbers(table)]
        for place, name in enumerate(self.category_columns):
            pieces.append(self._one_hot(place, categories[name]))
        return np.concatenate(pieces, axis=1)

    def unseen(self, table: MixedTable) -> dict[str, list[str]]:
        """Return by column the values that have no feature of their own.

        Where rare values were pooled in training, some such values are usual: these columns count if most are such.
        """
        found: dict[str, list[str]] = {}
        categories = table.by_category
        for place, name in enumerate(self.category_columns):
            known, values = self._places[place], categories[name]
            unknown = [value for value in values if value is not None and value not in known]
            if len(unknown) > (len(values) / 2 if self.pooled[place] else 0):
                found[name] = unknown
        return found

    def _numbers(self, table: MixedTable) -> NDArray[np.float32]:
        places = {name: place for place, name in enumerate(table.number_columns)}
        numbers = table.numbers[:, [places[name] for name in self.number_columns]].astype(np.float64)
        gaps = np.isnan(numbers)
        filled = np.where(gaps, self.medians, numbers)
        standard = (np.concatenate([filled, gaps[:, self.marked]], axis=1) - self.mean) / self.scale
        return standard.astype(np.float32)

    def _one_hot(self, place: int, values: Sequence[Value]) -> NDArray[np.float32]:
        known = self._places[place]
        width = len(known) + self.pooled[place]
        features = np.zeros((len(values), width + 1), dtype=np.float32)
        other = len(known) if self.pooled[place] else width  # the last column is dropped
        features[np.arange(len(values)), [known.get(value, other) for value in values]] = 1
        return features[:, :width]

    @cached_property
    def _places(self) -> list[dict[Value, int]]:
        return [{value: place for place, value in enumerate(values)} for values in self.values]

    def to_files(self, folder: Path) -> None:
        """Write the encoder into a folder."""
        description = {
            "kind": self.kind,
            "number_columns": self.number_columns,
            "category_columns": self.category_columns,
            "values": self.values,
            "pooled": self.pooled,
        }
        arrays = {"medians": self.medians, "marked": self.marked, "mean": self.mean, "scale": self.scale}
        write_encoder(folder, description, arrays)

    @classmethod
    def from_files(cls, folder: Path) -> "TableEncoder":
        """Read an encoder that `to_files` wrote; it returns exactly the same features."""
        description, arrays = read_encoder(folder, DESCRIBED)
        if missing := {"medians", "marked", "mean", "scale"} - arrays.keys():
            raise damaged(folder, f"the array {min(missing)} is missing")
        encoder = cls(
            number_columns=tuple(description["number_columns"]),
            medians=arrays["medians"],
            marked=arrays["marked"],
            mean=arrays["mean"],
            scale=arrays["scale"],
            category_columns=tuple(description["category_columns"]),
            values=tuple(tuple(values) for values in description["values"]),
            pooled=tuple(description["pooled"]),
        )
        if not encoder._fits():
            raise damaged(folder)
        return encoder

    def _fits(self) -> bool:
        """Return whether arrays and columns belong together."""
        numbers, features = len(self.number_columns), (len(self.number_columns) + self.marked.size,)
        return (
            self.medians.shape == (numbers,)
            and self.marked.ndim == 1
            and self.marked.dtype.kind == "i"
            and bool(((self.marked >= 0) & (self.marked < numbers)).all())
            and self.mean.shape == self.scale.shape == features
            and bool((self.scale != 0).all())
            and len(self.values) == len(self.pooled) == len(self.category_columns)
        )


def column_transformer(table: MixedTable) -> Any:
    """Return the unfitted `ColumnTransformer` for the array of a table; columns without any number are left out."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    categories = OneHotEncoder(
        min_frequency=MIN_FREQUENCY if len(table) >= FEW_ROWS else 2,
        max_categories=MAX_CATEGORIES,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    first = len(table.number_columns)
    chosen = [
        ("numbers", numbers, _used_numbers(table)),
        ("categories", categories, list(range(first, first + len(table.category_columns)))),
    ]
    return ColumnTransformer([each for each in chosen if each[2]], sparse_threshold=0)


def as_array(table: MixedTable) -> NDArray[Any]:
    """Return a table as an array of Python objects, as a `ColumnTransformer` takes it; numbers come first."""
    array = np.empty((len(table), len(table.columns)), dtype=object)
    array[:, : len(table.number_columns)] = table.numbers.astype(np.float64)
    for place, values in enumerate(table.categories, len(table.number_columns)):
        array[:, place] = values
    return array


def _used_numbers(table: MixedTable) -> list[int]:
    return np.flatnonzero(~np.isnan(table.numbers).all(0)).tolist()
