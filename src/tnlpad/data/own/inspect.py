"""Summarise own data before training: classes, parts, sizes, exact and near duplicates, and samples left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnlpad.data.own.dataset import OwnDataset, Problem
from tnlpad.data.own.labels import alike
from tnlpad.data.own.near_duplicates import grouped, near_duplicate_groups, paired_by_value
from tnlpad.data.progress import SILENT, Reporter


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Samples of the same content, or nearly so."""

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[str, ...]

    @property
    def contradict(self) -> bool:
        """Whether they have different labels, of which at least one is probably wrong."""
        return len(set(self.labels)) > 1

    @property
    def across_parts(self) -> bool:
        """Whether a training sample is also used for validation or testing."""
        return len(set(self.parts)) > 1

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        lists = {name: list(getattr(self, name)) for name in ("ids", "labels", "parts")}
        return lists | {"contradict": self.contradict}


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The summary.

    Args:
        classes: Number of samples per class, the largest first.
        untrained: Classes with samples but no training sample.
        parts: Number of samples per part.
        sizes: Number of images per width and height, the most frequent first.
        modes: Number of images per mode, as Pillow names them.
        columns: Names of features, or of the columns of a table.
        categories: Those of them that are categories.
        text_column: Column of the texts, if they were in a table.
        groups: Number of groups; None if none were given.
        left_out: Samples that cannot be used.
        duplicates: Groups of samples of the same content, contradicting labels first.
        near_duplicates: The same of samples that look or read alike, without groups of identical content alone.
        notes: Further remarks.
    """

    kind: str
    samples: int
    fingerprint: str
    classes: dict[str, int]
    untrained: tuple[str, ...]
    parts: dict[str, int]
    sizes: dict[tuple[int, int], int]
    modes: dict[str, int]
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    text_column: str | None
    groups: int | None
    left_out: tuple[Problem, ...]
    duplicates: tuple[Duplicates, ...]
    near_duplicates: tuple[Duplicates, ...]
    notes: tuple[str, ...]

    @property
    def imbalance(self) -> float:
        """Size of the largest class relative to the smallest non-empty one."""
        present = [count for count in self.classes.values() if count]
        return max(present) / min(present)

    @property
    def single(self) -> tuple[str, ...]:
        """Classes of one sample."""
        return self.smaller_than(2)

    def smaller_than(self, samples: int) -> tuple[str, ...]:
        """Return the classes with fewer samples, and at least one."""
        return tuple(name for name, count in self.classes.items() if 0 < count < samples)

    @property
    def empty(self) -> tuple[str, ...]:
        """Classes without samples."""
        return tuple(name for name, count in self.classes.items() if count == 0)

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """Groups of classes whose names hardly differ."""
        return alike(self.classes)

    @property
    def reasons(self) -> dict[str, int]:
        """Number of samples left out per reason, the most frequent first."""
        return dict(Counter(each.reason for each in self.left_out).most_common())

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "kind": self.kind,
            "samples": self.samples,
            "fingerprint": self.fingerprint,
            "classes": self.classes,
            "parts": self.parts,
            "sizes": [{"width": w, "height": h, "samples": count} for (w, h), count in self.sizes.items()],
            "modes": self.modes,
            "columns": list(self.columns),
            "categories": list(self.categories),
            "text_column": self.text_column,
            "groups": self.groups,
            "imbalance": self.imbalance,
            "classes_of_one_sample": list(self.single),
            "classes_without_samples": list(self.empty),
            "classes_not_trained_on": list(self.untrained),
            "classes_named_alike": [list(names) for names in self.alike],
            "left_out": [{"id": each.id, "reason": each.reason} for each in self.left_out],
            "duplicates": [each.to_json() for each in self.duplicates],
            "near_duplicates": [each.to_json() for each in self.near_duplicates],
            "notes": list(self.notes),
        }


def inspect(own: OwnDataset, reporter: Reporter = SILENT) -> Inspection:
    """Summarise a dataset; nothing is read again."""
    counts = np.bincount(own.labels, minlength=len(own.class_names))
    order = np.argsort(-counts, kind="stable")
    trained = set(own.labels[own.indices("train")].tolist())
    return Inspection(
        kind=own.kind,
        samples=len(own.ids),
        fingerprint=own.shape.fingerprint,
        classes={own.class_names[each]: int(counts[each]) for each in order},
        untrained=tuple(own.class_names[each] for each in order if counts[each] and each not in trained),
        parts=_parts(own),
        sizes=_sizes(own),
        modes={} if own.image_info is None else own.image_info.modes,
        columns=own.columns,
        categories=own.table.category_columns if own.table is not None else (),
        text_column=own.text_column,
        groups=len(set(own.groups)) if own.groups is not None else None,
        left_out=own.problems,
        duplicates=_duplicates(own),
        near_duplicates=_near_duplicates(own, reporter),
        notes=own.notes,
    )


def _parts(own: OwnDataset) -> dict[str, int]:
    if own.parts is None:
        return {"train": len(own.ids)}
    return {part: count for part in ("train", "validation", "test") if (count := own.parts.count(part))}


def _sizes(own: OwnDataset) -> dict[tuple[int, int], int]:
    if own.images is not None:
        return {(own.shape.width, own.shape.height): len(own.images)}
    return {} if own.image_info is None else own.image_info.sizes


def _duplicates(own: OwnDataset) -> tuple[Duplicates, ...]:
    return _listed(own, grouped(paired_by_value(own.digests)[1]))


def contradictions(own: OwnDataset) -> str | None:
    """Return a sentence if identical images or texts have different labels; None for rows of numbers and categories.

    Different things may have the same numbers, but of the labels of one picture only one is right.
    """
    if own.kind in ("features", "table"):
        return None
    counts = [Counter(group.labels) for group in _duplicates(own) if group.contradict]
    if not counts:
        return None
    wrong = sum(each.total() - max(each.values()) for each in counts)
    one = len(counts) == 1
    groups = f"{len(counts):,} {'group' if one else 'groups'} of identical samples {'has' if one else 'have'}"
    return f"{groups} different labels, so at least {wrong:,} {'is' if wrong == 1 else 'are'} wrong."


def _near_duplicates(own: OwnDataset, reporter: Reporter) -> tuple[Duplicates, ...]:
    groups = near_duplicate_groups(own, reporter)
    return _listed(own, [rows for rows in groups if len({own.digests[row] for row in rows}) > 1])


def _listed(own: OwnDataset, groups: Sequence[Sequence[int]]) -> tuple[Duplicates, ...]:
    return tuple(sorted((_group(own, rows) for rows in groups), key=lambda each: not each.contradict))


def _group(own: OwnDataset, rows: Sequence[int]) -> Duplicates:
    return Duplicates(
        ids=tuple(own.ids[row] for row in rows),
        labels=tuple(own.class_names[own.labels[row]] for row in rows),
        parts=tuple(own.parts[row] if own.parts is not None else "train" for row in rows),
    )
