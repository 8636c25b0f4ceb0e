"""Find cleaned samples in the rows of their data, and write labels in the values that the data have."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.data.own.columns import ID_COLUMNS, SPLIT_COLUMNS, find_column
from tnlpad.data.own.dataset import Part, ReadOptions
from tnlpad.data.own.labels import Label, further_label, label_as_given
from tnlpad.errors import DataError
from tnlpad.suspects.clean import ORIGINAL, Cleaned
from tnlpad.suspects.listing import RankedRun

if TYPE_CHECKING:
    from tnlpad.data.own.dataset import Listing, OwnDataset

Place = tuple[Part | None, int]  # part, or None where rows count through all parts; and row
NewIds = Mapping[str, str]  # ids of the cleaned data by those of the run, where they differ


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """Data to write again.

    Args:
        path: Where they are.
        options: How they were read.
        ids, rows, parts: Id, row and part of each sample that was used.
        pictures: Whether they are a table with images in it.
    """

    path: Path
    options: ReadOptions
    ids: Sequence[str]
    rows: Sequence[int]
    parts: Sequence[Part] | None
    pictures: bool


def source_of(run: RankedRun, found: "OwnDataset") -> Source:
    """Return the data of a run, which were opened again."""
    return Source(
        path=Path(run.about["path"]),
        options=run.read_options,
        ids=found.ids,
        rows=[int(row) for row in found.rows],
        parts=found.parts,
        pictures=found.picture_column is not None,
    )


def is_divided(samples: Iterable[Cleaned | None]) -> bool:
    """Whether some samples are for validation or testing, which a column `split` says; None is one without a label."""
    return any(sample is not None and sample.split != "train" for sample in samples)


def columns_to_add(table: Collection[str], where: Path, *, ids: bool, split: bool) -> dict[str, str]:
    """Return the names of columns to add to a table, by what they hold: `id`, `split` or the original label.

    A column that is ignored keeps its name, and the added one gets another that readers know.

    Args:
        table: Names of the columns that there are.
        where: Name of the table in messages.
        ids: Whether ids are needed.
        split: Whether parts are needed.
    """
    needed = {"id": ID_COLUMNS if ids else (), "split": SPLIT_COLUMNS if split else (), ORIGINAL: (ORIGINAL,)}
    found = {
        what: name
        for what, known in needed.items()
        if (name := next((each for each in known if find_column([each], table) is None), None)) is not None
    }
    if ids and "id" not in found:  # counted, they would be those of other rows if some are dropped
        raise DataError(
            f"{where}: its columns {' and '.join(ID_COLUMNS)} do not name the samples, so there is no place for their "
            "ids. Rename one of them, and train again."
        )
    return found


class CleanedRows:
    """The fate of each row of the data. Rows of samples that could not be used stay as they are.

    Args:
        source: The data.
        kept: The samples that are kept.
        used: Ids of all samples of the run.
        by_part: Whether the rows of each part are counted from 0.
    """

    def __init__(self, source: Source, kept: Sequence[Cleaned], used: Collection[str], *, by_part: bool) -> None:
        sample, known = {each.id: each for each in kept}, set(used)
        parts = source.parts if by_part and source.parts is not None else [None] * len(source.ids)
        places = zip(source.ids, parts, source.rows, strict=True)
        self._fates: dict[Place, Cleaned | None] = {
            (part, row): sample.get(name) for name, part, row in places if name in known
        }

    def staying(self, rows: Iterable[int], part: Part | None = None) -> Iterator[tuple[int, Cleaned | None]]:
        """Yield the places of the rows that stay, each with its sample; None for one that could not be used."""
        for place, row in enumerate(rows):
            if (part, row) not in self._fates:
                yield place, None
            elif (sample := self._fates[part, row]) is not None:
                yield place, sample


class LabelValues:
    """The values of a label column by the names of their classes.

    Args:
        column: Its values.
        where: Name of the data in messages.
        class_names: Names of the classes that whole numbers count, if the data have them. New ones are added.
    """

    def __init__(self, column: Iterable[Any], where: Path, class_names: Sequence[str] | None = None) -> None:
        self.where = where
        self.class_names = None if class_names is None else list(class_names)
        self._values: dict[str, Any] = {}
        for value in column:
            self._values.setdefault(self.name(value) or "", value)

    def name(self, value: Any) -> str | None:
        """Return the class of a value, or None."""
        return label_name(label_as_given(value, self.where), self.class_names)

    def value(self, name: str) -> Any:
        """Return the value of a class; that of a new class is its name, or a number like the others."""
        if self.class_names is None:
            found = self._values[name] if name in self._values else further_label(name, self._values.values())
            return name if isinstance(found, str) else found
        if name not in self.class_names:
            self.class_names.append(name)
        return self.class_names.index(name)

    def corrected(self, value: Any, sample: Cleaned | None) -> Any:
        """Return the label of a row, which stays as it is unless it changed."""
        return value if sample is None or self.name(value) == sample.label else self.value(sample.label)

    def original(self, value: Any, sample: Cleaned | None) -> Any:
        """Return the label that a row had in training; None for one that could not be used."""
        if sample is None:
            return None
        unchanged = not isinstance(value, str) and self.name(value) == sample.original_label
        return value if unchanged else self.value(sample.original_label)


def label_name(label: Label | None, class_names: Sequence[str] | None) -> str | None:
    """Return the name of the class of a label, or None."""
    if label is None:
        return None
    counts = class_names is not None and isinstance(label, int) and 0 <= label < len(class_names)
    return class_names[int(label)] if counts and class_names is not None else str(label)


def require_unchanged(run: RankedRun, found: "Listing") -> None:
    """Raise DataError if the data have other samples or labels than the run was trained on."""
    simulated = run.config.get("noise") not in (None, "none")  # then the data have other labels than the run
    labels = {name: label_name(label, found.class_names) for name, label in zip(found.ids, found.labels, strict=True)}
    for name, label in zip(run.samples["id"], run.samples["label_name"], strict=True):
        difference = None
        if name not in labels:
            difference = "is missing"
        elif not simulated and label != labels[name]:
            difference = f"had the label {label[:80]!r} and has {str(labels[name])[:80]!r}"
        if difference is not None:
            raise DataError(
                f"{run.about['path']} has changed since the run was trained on it: {name[:80]!r} {difference}. Restore "
                "it, or train on it again."
            )
