"""Runs brought together: those that differ in nothing but their seed, with mean and standard deviation.

Runs of one cell that were computed or stopped differently (another protocol or precision, patience), or by another
recipe, are groups of their own, and each says what it is: no group is the rule because it has the most runs.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tnlpad.records.archive import FinishedRecord

DECOMPOSED = {"sigma", "w"}  # what a decomposition is judged by
CHOSEN_BY = "epoch chosen by"
# What a record means that was written before these could be chosen. Any other field that it lacks has the recipe's
# value, since a departure from the recipe would be among its settings.
BEFORE_THERE_WAS_A_CHOICE = {"precision": "float32", "compiled": False, "patience": None}


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and standard deviation of some seeds, in percent."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, shares: Sequence[float]) -> "Spread":
        """The standard deviation is that of the sample, with n − 1; a single value has none."""
        values = [100 * share for share in shares]
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(mean=statistics.fmean(values), sd=sd, n=len(values))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in their seed alone; `label` says how they differ from what the recipe does on any machine."""

    label: str
    records: tuple[FinishedRecord, ...]

    @cached_property
    def chosen(self) -> Spread:
        """Test accuracy of the epoch that noisy validation chose."""
        return Spread.of([record.summary["chosen"]["test_accuracy"] for record in self.records])

    @cached_property
    def last(self) -> Spread:
        """Test accuracy of the last epoch."""
        return Spread.of([record.summary["last"]["test_accuracy"] for record in self.records])

    @cached_property
    def memorised(self) -> Spread | None:
        """Share of wrong training labels that the reported network has learnt by heart in the last epoch."""
        shares = [_memorised(record.summary["last"]) for record in self.records]
        known = [share for share in shares if share is not None]
        return Spread.of(known) if known else None

    @property
    def papers_way(self) -> bool:
        """Whether these runs follow the paper's protocol to the last epoch."""
        config = self.records[0].config
        return config["protocol"] == "paper" and config.get("patience") is None

    @property
    def epochs(self) -> tuple[int, int]:
        """The earliest and the latest chosen epoch."""
        epochs = [record.summary["chosen"]["epoch"] for record in self.records]
        return min(epochs), max(epochs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record.config["seed"] for record in self.records)

    @property
    def selection(self) -> str:
        """The rule that chose the epoch."""
        rule: str = self.records[0].summary["selection"]
        return rule


def groups_of(records: Sequence[FinishedRecord]) -> tuple[Group, ...]:
    """Runs of one cell, parted by everything but their seed; where there are most comes first."""
    parts = sorted(_parts(records), key=lambda part: (-len(part.records), len(part.variant), part.records[0].run_id))
    return tuple(Group(label=", ".join(_label(part, parts)), records=part.records) for part in parts)


def variant(config: Mapping[str, Any]) -> tuple[str, ...]:
    """In words, how a run was computed or stopped other than the recipe says."""
    known = {**BEFORE_THERE_WAS_A_CHOICE, **config}
    words = []
    if known["protocol"] != "paper":
        words.append(f"protocol {known['protocol']}")
    if known["precision"] != "float32":
        words.append(str(known["precision"]))
    if known["compiled"]:
        words.append("compiled")
    if known["patience"] is not None:
        words.append(f"patience {known['patience']}")
    return tuple(words)


def reported(judged: Iterable[str]) -> list[str]:
    """The judged networks whose mean the method reports: of a decomposition the first, of several networks all."""
    names = list(judged)
    return names[:1] if set(names) == DECOMPOSED else names


def _memorised(end: Mapping[str, Any]) -> float | None:
    judged = end.get("judged", {})
    shares = [judged[name]["memorised"] for name in reported(judged) if "memorised" in judged[name]]
    return statistics.fmean(shares) if shares else None


# What parts the runs of a cell ----------------------------------------------------------------------------------------

Fields = Mapping[str, str]  # of a run and of its method in one, all but the seed; values as JSON, to be compared


@dataclass(frozen=True, kw_only=True)
class _Part:
    records: tuple[FinishedRecord, ...]  # by seed
    fields: Fields
    lacking: frozenset[str]  # fields that none of its records has

    @property
    def variant(self) -> tuple[str, ...]:
        return variant(self.records[0].config)


def _parts(records: Sequence[FinishedRecord]) -> list[_Part]:
    written = [_fields(record) for record in records]
    filled = _filled(written)
    alike: dict[str, list[int]] = {}
    for number, fields in enumerate(filled):
        alike.setdefault(json.dumps(fields, sort_keys=True), []).append(number)
    parts = []
    for numbers in alike.values():
        for few in _without_repeated_seeds(numbers, records, written):
            parts.append(
                _Part(
                    records=tuple(sorted((records[k] for k in few), key=lambda record: int(record.config["seed"]))),
                    fields=filled[few[0]],
                    lacking=frozenset(filled[few[0]]).difference(*(written[k] for k in few)),
                )
            )
    return parts


def _fields(record: FinishedRecord) -> Fields:
    config = {**BEFORE_THERE_WAS_A_CHOICE, **record.config, **record.config["options"]}
    config[CHOSEN_BY] = record.summary["selection"]
    return {name: json.dumps(value) for name, value in config.items() if name not in ("seed", "options")}


def _filled(written: Sequence[Fields]) -> list[Fields]:
    """With the fields that a record lacks, as of an earlier version: as the others have it, if they agree."""
    values: dict[str, set[str]] = {}
    for fields in written:
        for name, value in fields.items():
            values.setdefault(name, set()).add(value)
    usual = {name: next(iter(known)) if len(known) == 1 else json.dumps(None) for name, known in values.items()}
    return [{**usual, **fields} for fields in written]


def _without_repeated_seeds(
    numbers: Sequence[int], records: Sequence[FinishedRecord], written: Sequence[Fields]
) -> list[list[int]]:
    """A seed counts once: where an earlier version's records have the same ones, they stay apart."""
    seeds = [records[k].config["seed"] for k in numbers]
    if len(set(seeds)) == len(seeds):
        return [list(numbers)]
    apart: dict[frozenset[str], list[int]] = {}
    for k in numbers:
        apart.setdefault(frozenset(written[k]), []).append(k)
    return list(apart.values())


def _label(part: _Part, parts: Sequence[_Part]) -> list[str]:
    """Its variant, and what sets it apart from others of the same: a recipe that changed between versions."""
    rivals = [each for each in parts if each.variant == part.variant]
    different = [name for name in part.fields if len({each.fields[name] for each in rivals}) > 1]
    twins = [each for each in rivals if each.fields == part.fields]
    earlier = [name for name in part.fields if name in part.lacking and any(name not in t.lacking for t in twins)]
    return [*part.variant, *(_in_words(part, name) for name in (*different, *earlier))]


def _in_words(part: _Part, name: str) -> str:
    if name in part.lacking:
        return f"recorded without {name}"
    value = json.loads(part.fields[name])
    return f"{name}: {value}" if name == CHOSEN_BY else f"{name}={value}"
