"""A table's cells arranged for reading: a matrix as in the paper, and a block for each of its columns.

A matrix has a line for each method, and more than one where there are variants; a block shows one column of a matrix
with everything that is known about its cells.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tnlpad.report.groups import Group
from tnlpad.report.results import Comparison, Entry, TableResults, compare
from tnlpad.report.words import column_title, dataset_title, group_title, method_title

ONE_MATRIX = ("real_world",)  # its columns are datasets
PLAIN = "float32"  # a run by the recipe as it stands
LEGEND = (
    "Ours above, the published number below. ≈ within two standard errors of it, ▲ above and ▼ below by more, ? where "
    "that cannot be said, · where there are no runs."
)
OURS = ("tnlpad", "decomposition+gamma+sigma", "self+tnlpad", "dividemix+tnlpad")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One method, in one variant: what there is of it in each column."""

    row: str
    label: str
    cells: tuple[tuple[Entry, Group | None], ...]
    first: bool  # of its method

    @property
    def title(self) -> str:
        return method_title(self.row)

    @property
    def filled(self) -> bool:
        return any(group for _, group in self.cells)

    @property
    def is_ours(self) -> bool:
        """Whether it is the paper's own method, to be told from those it is compared with."""
        return self.row in OURS


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Methods against columns, as the paper prints them."""

    title: str
    columns: tuple[str, ...]
    names: tuple[str, ...]  # of the columns, as `--only` takes them
    lines: tuple[Line, ...]

    @property
    def headings(self) -> list[str]:
        return [column_title(column) for column in self.columns]

    @property
    def filled(self) -> bool:
        return any(line.filled for line in self.lines)

    @property
    def main_label(self) -> str:
        """The variant of most runs: said once, and not in every line."""
        return _main_label(group for line in self.lines for _, group in line.cells if group)

    def title_of(self, line: Line) -> str:
        """The method, and its variant where that is not the one of most runs."""
        label = label_beside(line.label, self.main_label) if line.filled else ""
        return f"{line.title} ({label})" if label else line.title


@dataclass(frozen=True, kw_only=True)
class Block:
    """One column: all methods under the same conditions."""

    name: str  # as `--only` takes it
    title: str
    entries: tuple[Entry, ...]

    @property
    def filled(self) -> int:
        return sum(bool(entry.groups) for entry in self.entries)

    @property
    def main_label(self) -> str:
        """As of a matrix."""
        return _main_label(group for entry in self.entries for group in entry.groups)

    @property
    def several_variants(self) -> bool:
        """Whether some method has runs of more than one."""
        return any(len(entry.groups) > 1 for entry in self.entries)

    @property
    def comparisons(self) -> list[Comparison]:
        """Of every group with a published number."""
        return [
            compare(group.chosen, entry.cell.published)
            for entry, group in self.rows
            if group is not None and entry.cell.published is not None
        ]

    @property
    def rows(self) -> Iterator[tuple[Entry, Group | None]]:
        """Every group of runs, and every cell that has none."""
        for entry in self.entries:
            yield from ((entry, group) for group in entry.groups or (None,))


def matrices(table: TableResults) -> list[Matrix]:
    """One for each dataset, in the paper's order."""
    parts: dict[str, list[Entry]] = {}
    for entry in table.entries:
        parts.setdefault("" if table.name in ONE_MATRIX else entry.cell.dataset, []).append(entry)
    return [_matrix(dataset_title(dataset) if dataset else table.title, part) for dataset, part in parts.items()]


def _matrix(title: str, entries: list[Entry]) -> Matrix:
    columns = {entry.cell.column: entry.cell.group for entry in entries}
    rows = dict.fromkeys(entry.cell.row for entry in entries)
    at = {(entry.cell.row, entry.cell.column): entry for entry in entries}
    main = _main_label(group for entry in entries for group in entry.groups)
    return Matrix(
        title=title,
        columns=tuple(columns),
        names=tuple(columns.values()),
        lines=tuple(line for row in rows for line in _lines(row, tuple(columns), at, main)),
    )


def _lines(row: str, columns: tuple[str, ...], at: dict[tuple[str, str], Entry], main: str) -> Iterator[Line]:
    """The variant with most cells first, and of two with as many the one that is the rule."""
    entries = [at[row, column] for column in columns if (row, column) in at]
    counts = Counter(group.label for entry in entries for group in entry.groups) or Counter({main: 0})
    for number, label in enumerate(sorted(counts, key=lambda label: (-counts[label], label != main, label))):
        found = [(entry, next((g for g in entry.groups if g.label == label), None)) for entry in entries]
        yield Line(row=row, label=label, cells=tuple(found), first=number == 0)


def _main_label(groups: Iterable[Group]) -> str:
    counts = Counter(group.label for group in groups)
    return counts.most_common(1)[0][0] if counts else ""


def label_beside(label: str, main: str) -> str:
    """What is to be said of a variant where another is the rule; nothing of the rule itself."""
    return "" if label == main else label or PLAIN


def said_once(main: str) -> str:
    """A sentence about the variant of most runs; nothing where they are as the recipe says."""
    return f"Runs, where nothing else is said: {main}." if main else ""


def blocks(table: TableResults) -> list[Block]:
    """One for each column of each matrix, in the paper's order."""
    parts: dict[str, list[Entry]] = {}
    for entry in table.entries:
        parts.setdefault(entry.cell.group, []).append(entry)
    return [
        Block(name=name, title=group_title(part[0].cell.dataset, part[0].cell.column), entries=tuple(part))
        for name, part in parts.items()
    ]
