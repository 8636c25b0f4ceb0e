"""Runs that belong to no table of the paper, in tables of their own: a row for each method, a column for each noise.

Whoever compares methods on other data, noise or settings gets the same files as for the paper's tables. Only what was
set up alike stands in one table: the same dataset, network and settings of the run; also where some of it stands in a
table of the paper as well. What belongs to a method alone, its own settings and the share of wrong labels that it
assumes, is said in its row.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tnlpad.paper.cells import VARIANTS
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.groups import Group
from tnlpad.report.latex import environment, escape_latex
from tnlpad.report.markdown import HEADINGS, group_cells
from tnlpad.report.plain import csv_of, of_runs
from tnlpad.report.results import all_groups, other_runs
from tnlpad.report.tables import markdown_row, spread_text
from tnlpad.report.words import METHODS, dataset_title, method_title, network_title, noise_title

NAME = "other"  # of its files
TITLE = "Other runs"
OF_A_METHOD = "noise_rate"  # a setting of the run, but one that only some methods look at
LEGEND = "Test accuracy in percent, mean ± standard deviation over seeds (n − 1)."
OVERVIEW_LEGEND = (
    "Test accuracy in percent at the chosen epoch, mean ± standard deviation over seeds (n − 1), n in brackets."
)


class RowKey(NamedTuple):
    """To sort rows by: methods in the paper's order and others after them; then their own settings and variants."""

    place: int
    method: str
    own_settings: str
    variant: str

    @property
    def label(self) -> str:
        """Without the variant."""
        return ", ".join(filter(None, (method_title(self.method), self.own_settings)))

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.label, self.variant)))


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A method with its own settings, and its runs under each kind of noise."""

    key: RowKey
    groups: tuple[Group | None, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What can be compared: one dataset, one network, one set-up of the run."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[StudyRow, ...]

    @property
    def headings(self) -> list[str]:
        return [noise_title(noise) for noise in self.columns]

    @property
    def blocks(self) -> list[tuple[str, list[tuple[RowKey, Group]]]]:
        """Column by column, the noise and every row that has runs under it."""
        pairs = [[(row.key, row.groups[k]) for row in self.rows] for k in range(len(self.columns))]
        return [
            (noise, [(key, group) for key, group in column if group is not None])
            for noise, column in zip(self.columns, pairs, strict=True)
        ]

    @property
    def selections(self) -> list[str]:
        """The rules by which epochs were chosen."""
        return list(dict.fromkeys(group.selection for row in self.rows for group in row.groups if group is not None))


def studies(records: Iterable[FinishedRecord]) -> list[Study]:
    """All runs that are in none of the paper's tables, each beside whatever was set up like it."""
    every = list(records)
    found: dict[str, list[Group]] = {}
    for group in all_groups(every):
        found.setdefault(set_up(group), []).append(group)
    wanted = {set_up(group) for groups in other_runs(every) for group in groups}
    return [_study(title, found[title]) for title in sorted(wanted, key=as_counted)]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Departures from the recipe, apart from how a run was computed: "epochs 40, c2 0.25"."""
    return ", ".join(f"{name} {_plain(value)}" for name, value in settings.items() if name not in VARIANTS)


def cell_text(group: Group | None) -> str:
    """With n, since nothing says how many seeds there should be."""
    return "·" if group is None else f"{spread_text(group.chosen)} ({group.chosen.n})"


def studies_markdown(found: Sequence[Study], level: int = 1) -> str:
    """A section for each, under a heading of this level: an overview of several columns, and each of them in full."""
    heading = "#" * level
    lines = [f"{heading} {TITLE}", "", LEGEND, ""]
    for study in found:
        lines += [f"{heading}# {study.title}", "", f"Epoch chosen by: {'; '.join(study.selections)}.", ""]
        if len(study.columns) > 1:
            lines += ["At the chosen epoch, n in brackets:", ""]
            lines += [markdown_row(["method", *study.headings]), markdown_row(["---", *["---:"] * len(study.columns)])]
            lines += [markdown_row([row.key.title, *map(cell_text, row.groups)]) for row in study.rows]
            lines.append("")
        for noise, rows in study.blocks:
            lines += [f"{heading}## {noise_title(noise)}", "", markdown_row(HEADINGS)]
            lines.append(markdown_row(["---", *["---:"] * (len(HEADINGS) - 1)]))
            lines += [markdown_row([key.title, *group_cells(group)]) for key, group in rows]
            lines.append("")
    return "\n".join(lines)


def studies_latex(found: Sequence[Study]) -> str:
    """A table environment for each, without any package."""
    head = f"% {TITLE}. Written by `tnlpad report` from records; needs no package."
    return "\n".join([head, *(line for study in found for line in _latex_lines(study))]) + "\n"


def study_rows(found: Sequence[Study]) -> list[dict[str, Any]]:
    """As plain data: one for each group of runs; accuracies in percent."""
    return [_plain_row(group) for study in found for row in study.rows for group in row.groups if group is not None]


def studies_csv(found: Sequence[Study]) -> str:
    """A line for each group of runs."""
    return csv_of(study_rows(found))


# How runs are put side by side ----------------------------------------------------------------------------------------


def set_up(group: Group) -> str:
    """Dataset, network and settings of the run, in words."""
    first = group.records[0]
    settings = {name: value for name, value in first.settings.items() if not _of_method(name, first)}
    words = [dataset_title(first.config["dataset"]), network_title(first.config["network"]), settings_text(settings)]
    return ", ".join(filter(None, words))


def as_counted(text: str) -> list[tuple[float, str]]:
    """To sort by: "epochs 5" before "epochs 10", 0.05 before 0.3."""
    parts = enumerate(re.split(r"(\d+(?:\.\d+)?)", text))
    return [(float(part), "") if number % 2 else (-1.0, part) for number, part in parts]


def _of_method(name: str, record: FinishedRecord) -> bool:
    return name == OF_A_METHOD or name in record.config["options"]


def row_key(group: Group) -> RowKey:
    """Where its row stands, and what it says."""
    first = group.records[0]
    own = {name: value for name, value in first.settings.items() if _of_method(name, first)}
    method = first.config["method"]
    place = list(METHODS).index(method) if method in METHODS else len(METHODS)
    return RowKey(place, method, settings_text(own), group.label)


def _study(title: str, groups: Sequence[Group]) -> Study:
    columns = tuple(sorted({group.records[0].config["noise"] for group in groups}, key=as_counted))
    cells = {(row_key(group), group.records[0].config["noise"]): group for group in groups}
    rows = [
        StudyRow(
            key=key,
            groups=tuple(cells.get((key, noise)) for noise in columns),
        )
        for key in sorted({row_key(group) for group in groups})
    ]
    return Study(title=title, columns=columns, rows=tuple(rows))


# The files ------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def _latex_lines(study: Study) -> Iterator[str]:
    caption = f"{study.title}. {OVERVIEW_LEGEND} Epoch chosen by: {'; '.join(study.selections)}."
    rows = (map(escape_latex, [row.key.title, *map(cell_text, row.groups)]) for row in study.rows)
    return environment(caption, study.headings, rows)


def _plain_row(group: Group) -> dict[str, Any]:
    first = group.records[0]
    return {
        **{name: first.config[name] for name in ("dataset", "noise", "method", "network")},
        "settings": settings_text(first.settings),
        **of_runs(group),
    }
