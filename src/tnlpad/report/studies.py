"""Runs outside the paper's tables, in tables of their own: a row for each method, a column for each noise.

A table holds the runs with the same dataset, network and run settings, including those that are also in a table of the
paper. Settings of a method, and the noise rate that it assumes, are part of its row.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tnlpad.paper.cells import VARIANTS
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.groups import Group, selection_rules
from tnlpad.report.latex import latex_file, latex_table
from tnlpad.report.results import all_groups, other_runs
from tnlpad.report.run_fields import HEADINGS, group_cells, plain_run_fields
from tnlpad.report.table import Table, TableFiles, markdown_text
from tnlpad.report.words import (
    METHODS,
    dataset_title,
    method_title,
    network_title,
    noise_title,
    spread_text,
    value_text,
)

NAME = "other"  # of the files
TITLE = "Other runs"
ASSUMED_NOISE = "noise_rate"  # a setting of the run that only some methods use
LEGEND = "Test accuracy in percent, mean ± standard deviation over seeds (n − 1)."
LATEX_LEGEND = (
    "Test accuracy in percent at the chosen epoch, mean ± standard deviation over seeds (n − 1), n in brackets."
)


class RowKey(NamedTuple):
    """Sort key of rows: methods in the paper's order, then others; then settings of the method and variants."""

    place: int
    method: str
    own_settings: str
    variant: str

    @property
    def label(self) -> str:
        """The method with its settings, without the variant."""
        return ", ".join(filter(None, (method_title(self.method), self.own_settings)))

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.label, self.variant)))


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A method with its settings, and its runs under each noise."""

    key: RowKey
    groups: tuple[Group | None, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Comparable runs: one dataset, network and set of run settings."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[StudyRow, ...]

    @property
    def headings(self) -> list[str]:
        return [noise_title(noise) for noise in self.columns]

    @property
    def blocks(self) -> list[tuple[str, list[tuple[RowKey, Group]]]]:
        """Each noise with the rows that have runs under it."""
        return [
            (noise, [(row.key, group) for row in self.rows if (group := row.groups[column]) is not None])
            for column, noise in enumerate(self.columns)
        ]

    @property
    def selection(self) -> str:
        """The rules that chose epochs."""
        return selection_rules(group for row in self.rows for group in row.groups if group is not None)


def studies(records: Iterable[FinishedRecord]) -> list[Study]:
    """Return all runs that are in none of the paper's tables, together with comparable ones that are."""
    every = list(records)
    found: dict[str, list[Group]] = {}
    for group in all_groups(every):
        found.setdefault(setup_title(group), []).append(group)
    wanted = {setup_title(group) for groups in other_runs(every) for group in groups}
    return [_study(title, found[title]) for title in sorted(wanted, key=natural_order)]


def setup_title(group: Group) -> str:
    """Return dataset, network and run settings as text."""
    first = group.records[0]
    settings = {name: value for name, value in first.settings.items() if not _belongs_to_method(name, first)}
    words = [dataset_title(first.config["dataset"]), network_title(first.config["network"]), settings_text(settings)]
    return ", ".join(filter(None, words))


def row_key(group: Group) -> RowKey:
    """Return the sort key and title of a group's row."""
    first = group.records[0]
    own = {name: value for name, value in first.settings.items() if _belongs_to_method(name, first)}
    method = first.config["method"]
    place = list(METHODS).index(method) if method in METHODS else len(METHODS)
    return RowKey(place, method, settings_text(own), group.label)


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return departures from the recipe as "epochs 40, c2 0.25", without precision, compilation and patience."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in settings.items() if name not in VARIANTS)


def natural_order(text: str) -> list[tuple[float, str]]:
    """Return a sort key that puts "epochs 5" before "epochs 10"."""
    parts = enumerate(re.split(r"(\d+(?:\.\d+)?)", text))
    return [(float(part), "") if number % 2 else (-1.0, part) for number, part in parts]


def studies_files(found: Sequence[Study], level: int = 1) -> TableFiles:
    """Render studies under a Markdown heading of this level: an overview if there are several columns, then each."""
    heading = "#" * level
    parts, environments = [f"{heading} {TITLE}\n", f"{LEGEND}\n"], []
    for study in found:
        overview = _overview(study)
        rules = f"Epoch chosen by: {study.selection}."
        environments.append(latex_table(overview, f"{study.title}. {LATEX_LEGEND} {rules}"))
        parts += [f"{heading}# {markdown_text(study.title)}\n", f"{markdown_text(rules)}\n"]
        if len(study.columns) > 1:
            parts += ["At the chosen epoch, n in brackets:\n", overview.to_markdown()]
        parts += [_block_table(noise, rows).to_markdown(level + 2) for noise, rows in study.blocks]
    return TableFiles(
        markdown="\n".join(parts),
        latex=latex_file(TITLE, environments),
        rows=[
            {**experiment_fields(group.records[0]), **plain_run_fields(group)}
            for study in found
            for row in study.rows
            for group in row.groups
            if group is not None
        ],
    )


def experiment_fields(record: FinishedRecord) -> dict[str, Any]:
    """Return plain data that says what was run."""
    words = {name: record.config[name] for name in ("dataset", "noise", "method", "network")}
    return {**words, "settings": settings_text(record.settings)}


def _study(title: str, groups: Sequence[Group]) -> Study:
    columns = tuple(sorted({group.records[0].config["noise"] for group in groups}, key=natural_order))
    cells = {(row_key(group), group.records[0].config["noise"]): group for group in groups}
    keys = sorted({key for key, _ in cells})
    rows = (StudyRow(key=key, groups=tuple(cells.get((key, noise)) for noise in columns)) for key in keys)
    return Study(title=title, columns=columns, rows=tuple(rows))


def _belongs_to_method(name: str, record: FinishedRecord) -> bool:
    return name == ASSUMED_NOISE or name in record.config["options"]


def _overview(study: Study) -> Table:
    return Table(
        title=study.title,
        headings=["method", *study.headings],
        align="l" + "r" * len(study.columns),
        rows=[[row.key.title, *map(_overview_cell, row.groups)] for row in study.rows],
    )


def _overview_cell(group: Group | None) -> str:
    return "·" if group is None else f"{spread_text(group.chosen)} ({group.chosen.n})"


def _block_table(noise: str, rows: Sequence[tuple[RowKey, Group]]) -> Table:
    cells = [[key.title, *group_cells(group)] for key, group in rows]
    return Table(title=noise_title(noise), headings=HEADINGS, align="lrrrr", rows=cells)
