"""Groups of runs that differ only in their seed, with mean and standard deviation.

Runs of one cell with another protocol, precision, patience or recipe form groups of their own. A group's label says how
it differs.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tnlpad.records.archive import FinishedRecord

DECOMPOSED = {"sigma", "w"}  # judged networks of a decomposition
CHOSEN_BY = "epoch chosen by"
# Values of records from before these settings existed. Any other missing field has the recipe's value, because a
# departure from the recipe would be among the record's settings.
DEFAULTS_OF_OLD_RECORDS = {"precision": "float32", "compiled": False, "patience": None}


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and standard deviation over seeds, in percent."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, shares: Sequence[float]) -> "Spread":
        """Compute the sample standard deviation (n − 1); a single value has none."""
        values = [100 * share for share in shares]
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(mean=statistics.fmean(values), sd=sd, n=len(values))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ only in their seed; `label` names their departures from the recipe."""

    label: str
    records: tuple[FinishedRecord, ...]

    @cached_property
    def chosen(self) -> Spread:
        """Test accuracy at the epoch chosen on noisy validation."""
        return Spread.of([record.summary["chosen"]["test_accuracy"] for record in self.records])

    @cached_property
    def last(self) -> Spread:
        """Test accuracy at the last epoch."""
        return Spread.of([record.summary["last"]["test_accuracy"] for record in self.records])

    @cached_property
    def memorised(self) -> Spread | None:
        """Share of wrong training labels that the reported network predicts at the last epoch."""
        shares = [_memorised(record.summary["last"]) for record in self.records]
        known = [share for share in shares if share is not None]
        return Spread.of(known) if known else None

    @property
    def follows_paper(self) -> bool:
        """Whether these runs use the paper's protocol up to the last epoch."""
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


def selection_rules(groups: Iterable[Group]) -> str:
    """Return the rules that chose epochs: one, unless the runs come from different versions."""
    return "; ".join(dict.fromkeys(group.selection for group in groups))


def groups_of(records: Sequence[FinishedRecord]) -> tuple[Group, ...]:
    """Split the runs of one cell by everything except the seed; the group with most runs comes first."""
    parts = sorted(_parts(records), key=lambda part: (-len(part.records), len(part.variant), part.records[0].run_id))
    return tuple(Group(label=", ".join(_label(part, parts)), records=part.records) for part in parts)


def variant(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe how the computation or the stopping of a run differs from the recipe."""
    known = {**DEFAULTS_OF_OLD_RECORDS, **config}
    departures = {
        f"protocol {known['protocol']}": known["protocol"] != "paper",
        str(known["precision"]): known["precision"] != "float32",
        "compiled": known["compiled"],
        f"patience {known['patience']}": known["patience"] is not None,
    }
    return tuple(word for word, departs in departures.items() if departs)


def reported(judged: Iterable[str]) -> list[str]:
    """Return the judged networks whose mean is reported: the first of a decomposition, otherwise all."""
    names = list(judged)
    return names[:1] if set(names) == DECOMPOSED else names


def _memorised(end: Mapping[str, Any]) -> float | None:
    judged = end.get("judged", {})
    shares = [judged[name]["memorised"] for name in reported(judged) if "memorised" in judged[name]]
    return statistics.fmean(shares) if shares else None


# Splitting the runs of a cell -----------------------------------------------------------------------------------------

Fields = Mapping[str, str]  # configuration and method options without the seed; values as JSON, for comparison


@dataclass(frozen=True, kw_only=True)
class _Part:
    records: tuple[FinishedRecord, ...]  # sorted by seed
    fields: Fields
    lacking: frozenset[str]  # fields that none of its records has

    @property
    def variant(self) -> tuple[str, ...]:
        return variant(self.records[0].config)


def _parts(records: Sequence[FinishedRecord]) -> list[_Part]:
    written = [_fields(record) for record in records]
    filled = _with_missing_fields(written)
    alike: dict[str, list[int]] = {}
    for number, fields in enumerate(filled):
        alike.setdefault(json.dumps(fields, sort_keys=True), []).append(number)
    return [
        _Part(
            records=tuple(sorted((records[k] for k in few), key=lambda record: int(record.config["seed"]))),
            fields=filled[few[0]],
            lacking=frozenset(filled[few[0]]).difference(*(written[k] for k in few)),
        )
        for numbers in alike.values()
        for few in _without_repeated_seeds(numbers, records, written)
    ]


def _fields(record: FinishedRecord) -> Fields:
    config = {**DEFAULTS_OF_OLD_RECORDS, **record.config, **record.config["options"]}
    config[CHOSEN_BY] = record.summary["selection"]
    return {name: json.dumps(value) for name, value in config.items() if name not in ("seed", "options")}


def _with_missing_fields(written: Sequence[Fields]) -> list[Fields]:
    """Fill the fields that records of an earlier version lack: with the value of the others where these agree."""
    values: dict[str, set[str]] = {}
    for fields in written:
        for name, value in fields.items():
            values.setdefault(name, set()).add(value)
    usual = {name: next(iter(known)) if len(known) == 1 else json.dumps(None) for name, known in values.items()}
    return [{**usual, **fields} for fields in written]


def _without_repeated_seeds(
    numbers: Sequence[int], records: Sequence[FinishedRecord], written: Sequence[Fields]
) -> list[list[int]]:
    """Count each seed once: records of an earlier version with the same seeds form their own part."""
    seeds = [records[k].config["seed"] for k in numbers]
    if len(set(seeds)) == len(seeds):
        return [list(numbers)]
    apart: dict[frozenset[str], list[int]] = {}
    for k in numbers:
        apart.setdefault(frozenset(written[k]), []).append(k)
    return list(apart.values())


def _label(part: _Part, parts: Sequence[_Part]) -> list[str]:
    """Return the variant and what differs from other parts of the same variant: a recipe that changed."""
    rivals = [each for each in parts if each.variant == part.variant]
    different = [name for name in part.fields if len({each.fields[name] for each in rivals}) > 1]
    twins = [each for each in rivals if each.fields == part.fields]
    earlier = [name for name in part.fields if name in part.lacking and any(name not in t.lacking for t in twins)]
    return [*part.variant, *(_field_text(part, name) for name in (*different, *earlier))]


def _field_text(part: _Part, name: str) -> str:
    if name in part.lacking:
        return f"recorded without {name}"
    value = json.loads(part.fields[name])
    return f"{name}: {value}" if name == CHOSEN_BY else f"{name}={value}"
