"""The paper's tables with our runs, arranged for reading; `paper_table_files` writes them.

A matrix has the layout of the paper, with a line for each method and variant. A block shows one column of a matrix in
full.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tnlpad.report.groups import Group
from tnlpad.report.paired import best_of, comparable_groups, comparable_means, mean_ranks, same_rules
from tnlpad.report.results import Comparison, Entry, TableResults, comparisons
from tnlpad.report.words import (
    column_heads,
    column_title,
    counted,
    dataset_title,
    group_title,
    method_title,
    range_text,
)

ONE_MATRIX = ("real_world",)  # the columns of this table are datasets
RECIPE_LABEL = "float32"  # label of runs without departures from the recipe
OURS = ("tnlpad", "decomposition+gamma+sigma", "self+tnlpad", "dividemix+tnlpad")
MEASURE = "Test accuracy in percent, mean ± standard deviation over seeds (n − 1)."
BOLD = (
    "Bold: the best method of a column, and those whose paired difference from it over common seeds is not decided "
    "(95 % interval by Student’s t, at least three seeds)."
)
LEGEND = (
    "Our result with n in brackets, and below it the published one. ≈ within two standard errors, ▲ above and ▼ below "
    f"by more, ? unknown, · no runs. {BOLD}"
)
RANK_LEGEND = (
    "Mean rank: over the columns in which all of these methods have runs, by the mean over the seeds that all of them "
    "have (by their own means if those are fewer than three); below it that of the paper."
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One variant of a method, with its group of runs in each column; `first` marks the first variant of a method."""

    row: str
    label: str
    cells: tuple[tuple[Entry, Group | None], ...]
    first: bool

    @property
    def title(self) -> str:
        return method_title(self.row)

    @property
    def filled(self) -> bool:
        return any(group for _, group in self.cells)

    @property
    def n_text(self) -> str:
        """The number of seeds, or "3–5" if it differs between columns; empty without runs."""
        counts = [group.chosen.n for _, group in self.cells if group]
        return range_text((min(counts), max(counts))) if counts else ""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Mean rank of a method over the columns in which all methods with runs have runs; the paper's over the same.

    The rank in a column is by the mean over common seeds, so it may differ from the order of the means in the cells.
    """

    ours: float
    published: float | None
    columns: int


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Methods against columns, as in the paper.

    Args:
        title: The dataset, or the table where it has one matrix.
        columns: The paper's columns.
        names: The columns as `--only` takes them.
        lines: A line for each method and variant.
        best: For each column, row and label of the best group of runs, and of those that tie with it.
        ranks: The rank of each line, by row and label; empty for a single column, or if no column has two methods.
    """

    title: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    best: tuple[frozenset[tuple[str, str]], ...]
    ranks: Mapping[tuple[str, str], Rank]

    @property
    def headings(self) -> list[str]:
        return [column_title(column) for column in self.columns]

    @property
    def short_headings(self) -> list[tuple[str, str]]:
        """The headings in two lines each."""
        return [column_heads(column) for column in self.columns]

    @property
    def rank_heading(self) -> str:
        """The heading of the ranks, with the number of columns that they are over."""
        columns = next(iter(self.ranks.values())).columns
        return f"mean rank, {counted(columns, 'column')}"

    @property
    def filled(self) -> bool:
        return any(line.filled for line in self.lines)

    @property
    def filled_lines(self) -> list[Line]:
        return [line for line in self.lines if line.filled]

    @property
    def empty_lines(self) -> list[Line]:
        return [line for line in self.lines if not line.filled]

    @property
    def main_label(self) -> str:
        """The variant of most runs. It is printed once above the table."""
        return _main_label(group for line in self.lines for _, group in line.cells if group)

    def variant(self, line: Line) -> str:
        """Return the variant of a line with runs, if it is not the main one."""
        return variant_label(line.label, self.main_label) if line.filled else ""

    def is_best(self, line: Line, column: int) -> bool:
        """Whether a line is the best of a column, or ties with it."""
        return (line.row, line.label) in self.best[column]

    def rank(self, line: Line) -> Rank | None:
        """Return the rank of a line, if it has one."""
        return self.ranks.get((line.row, line.label))

    def command(self, table: TableResults) -> str:
        """The command that runs the methods without runs."""
        rows = ",".join(dict.fromkeys(line.row for line in self.empty_lines))
        only = "" if table.name in ONE_MATRIX else f" --only {self.lines[0].cells[0][0].cell.dataset}"
        return f"{table.command}{only} --methods {rows}"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One column of a matrix: all methods under the same conditions. `name` is the column as `--only` takes it."""

    name: str
    title: str
    entries: tuple[Entry, ...]

    @property
    def filled(self) -> int:
        return sum(bool(entry.groups) for entry in self.entries)

    @property
    def main_label(self) -> str:
        """The variant of most runs. It is printed once above the table."""
        return _main_label(group for entry in self.entries for group in entry.groups)

    @property
    def several_variants(self) -> bool:
        return any(len(entry.groups) > 1 for entry in self.entries)

    @property
    def comparisons(self) -> list[Comparison]:
        return comparisons(self.entries)

    @property
    def rows(self) -> list[tuple[Entry, Group]]:
        """Every group of runs."""
        return [(entry, group) for entry in self.entries for group in entry.groups]

    @property
    def empty(self) -> list[Entry]:
        """The cells without runs."""
        return [entry for entry in self.entries if not entry.groups]

    @property
    def command(self) -> str:
        """The command that runs the cells without runs; empty if there are none."""
        rows = ",".join(dict.fromkeys(entry.word for entry in self.empty))
        return f"tnlpad reproduce {self.entries[0].cell.table} --only {self.name} --methods {rows}" if rows else ""

    @property
    def best(self) -> frozenset[tuple[str, str]]:
        """Row and label of the best group of runs, and of those that tie with it."""
        return _best(self.entries, self.main_label)

    def variant(self, group: Group) -> str:
        """Return the variant of a group, if it is not the main one."""
        return variant_label(group.label, self.main_label)


def matrices(table: TableResults) -> list[Matrix]:
    """Return a matrix for each dataset, in the paper's order."""
    parts: dict[str, list[Entry]] = {}
    for entry in table.entries:
        parts.setdefault("" if table.name in ONE_MATRIX else entry.cell.dataset, []).append(entry)
    return [_matrix(dataset_title(dataset) if dataset else table.title, part) for dataset, part in parts.items()]


def blocks(table: TableResults) -> list[Block]:
    """Return a block for each column of each matrix, in the paper's order."""
    parts: dict[str, list[Entry]] = {}
    for entry in table.entries:
        parts.setdefault(entry.cell.group, []).append(entry)
    return [
        Block(name=name, title=group_title(part[0].cell.dataset, part[0].cell.column), entries=tuple(part))
        for name, part in parts.items()
    ]


def without_runs(table: TableResults) -> list[tuple[str, str]]:
    """Return titles and commands of the columns without runs; one for all columns of a dataset that has none."""
    datasets: dict[str, list[Block]] = {}
    for block in blocks(table):
        datasets.setdefault(block.entries[0].cell.dataset, []).append(block)
    found = []
    for dataset, every in datasets.items():
        empty = [block for block in every if not block.filled]
        if len(empty) == len(every) > 1 and table.name not in ONE_MATRIX:
            title = f"{dataset_title(dataset)}, {counted(len(empty), 'column')}"
            found.append((title, f"{table.command} --only {dataset}"))
        else:
            found += [(block.title, f"{table.command} --only {block.name}") for block in empty]
    return found


def variant_label(label: str, main: str) -> str:
    """Return the label of a variant; empty for the main one."""
    return "" if label == main else label or RECIPE_LABEL


def main_label_note(main: str) -> str:
    """Return a sentence about the main variant; empty for runs by the recipe."""
    return f"Unless noted: {main}." if main else ""


def _matrix(title: str, entries: list[Entry]) -> Matrix:
    columns = {entry.cell.column: entry.cell.group for entry in entries}
    rows = dict.fromkeys(entry.cell.row for entry in entries)
    at = {(entry.cell.row, entry.cell.column): entry for entry in entries}
    main = _main_label(group for entry in entries for group in entry.groups)
    lines = (line for row in rows for line in _lines(row, [at[row, c] for c in columns if (row, c) in at], main))
    parts = [[at[row, column] for row in rows if (row, column) in at] for column in columns]
    return Matrix(
        title=title,
        columns=tuple(columns),
        names=tuple(columns.values()),
        lines=tuple(lines),
        best=tuple(_best(part, main) for part in parts),
        ranks=_ranks(parts, main),
    )


def _compared(entries: Sequence[Entry], main: str) -> dict[str, Group]:
    """Return one group of runs for each row of a column, all by the same rules: the main variant where there is one."""
    groups = [group for entry in entries for group in entry.groups]
    if not groups:
        return {}
    reference = next((group for group in groups if group.label == main), groups[0])
    found = {}
    for entry in entries:
        alike = [group for group in entry.groups if same_rules(reference, group)]
        preferred = [group for group in alike if group.label == main]
        pair = comparable_groups([reference], preferred) or comparable_groups([reference], alike)
        if alike:
            found[entry.cell.row] = pair[1] if pair else alike[0]
    return found


def _best(entries: Sequence[Entry], main: str) -> frozenset[tuple[str, str]]:
    groups = _compared(entries, main)
    return frozenset((row, groups[row].label) for row in best_of(groups))


def _ranks(parts: Sequence[Sequence[Entry]], main: str) -> dict[tuple[str, str], Rank]:
    """Return the mean rank of every method with runs over the columns in which all of them have runs."""
    compared = [_compared(part, main) for part in parts]
    rows = {row for groups in compared for row in groups}
    shared = [(part, groups) for part, groups in zip(parts, compared, strict=True) if set(groups) == rows]
    if len(rows) < 2 or len(parts) < 2 or not shared:
        return {}
    ours = mean_ranks([comparable_means(groups) for _, groups in shared])
    published = mean_ranks(
        [
            {
                entry.cell.row: entry.cell.published.mean
                for entry in part
                if entry.cell.row in rows and entry.cell.published
            }
            for part, _ in shared
        ]
    )
    labels = {row: group.label for _, groups in shared[:1] for row, group in groups.items()}
    return {
        (row, labels[row]): Rank(ours=rank, published=published.get(row), columns=len(shared))
        for row, rank in ours.items()
    }


def _lines(row: str, entries: Sequence[Entry], main: str) -> Iterator[Line]:
    """Yield a line for each variant: the one with most cells first, and among equals the main one."""
    counts = Counter(group.label for entry in entries for group in entry.groups) or Counter({main: 0})
    for number, label in enumerate(sorted(counts, key=lambda label: (-counts[label], label != main, label))):
        cells = ((entry, next((g for g in entry.groups if g.label == label), None)) for entry in entries)
        yield Line(row=row, label=label, cells=tuple(cells), first=number == 0)


def _main_label(groups: Iterable[Group]) -> str:
    counts = Counter(group.label for group in groups)
    return counts.most_common(1)[0][0] if counts else ""
