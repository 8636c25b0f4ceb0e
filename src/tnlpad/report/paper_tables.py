"""The paper's tables with our runs: arranged for reading, and written as Markdown, CSV and LaTeX.

A matrix has the layout of the paper, with a line for each method and variant. A block shows one column of a matrix in
full.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.report.groups import Group, Spread
from tnlpad.report.paired import best_of, comparable_groups, mean_ranks
from tnlpad.report.results import Comparison, Entry, TableResults, comparisons
from tnlpad.report.table import StackedCell, Table, TableFiles, folded, latex_file
from tnlpad.report.words import column_title, dataset_title, epochs_text, group_title, method_title, signed, spread_text

ONE_MATRIX = ("real_world",)  # the columns of this table are datasets
RECIPE_LABEL = "float32"  # label of runs without departures from the recipe
OURS = ("tnlpad", "decomposition+gamma+sigma", "self+tnlpad", "dividemix+tnlpad")
HEADINGS = ("method", "chosen epoch", "last epoch", "wrong labels memorised", "n")
COMPARED_HEADINGS = ("paper", "difference", "within two standard errors?")
LEGEND = (
    "Our result with n in brackets, and below it the published one. ≈ within two standard errors, ▲ above and ▼ below "
    "by more, ? unknown, · no runs. Bold: the best method of a column, and those whose paired difference from it over "
    "common seeds is not decided."
)
RANK_LEGEND = "Mean rank: over the columns in which all of these methods have runs; below it the rank in the paper."
RANK_HEADING = "mean rank"


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


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Mean rank of a method over the columns in which all methods with runs have runs; the paper's over the same."""

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
        ranks: The rank of each line, by row and label; empty where fewer than two methods share a column.
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
    """Return one group of runs for each row of a column, all comparable: the main variant where there is one."""
    groups = [group for entry in entries for group in entry.groups]
    reference = [next((group for group in groups if group.label == main), groups[0])] if groups else []
    found = {}
    for entry in entries:
        preferred = [group for group in entry.groups if group.label == main]
        pair = comparable_groups(reference, preferred) or comparable_groups(reference, entry.groups)
        if pair is not None:
            found[entry.cell.row] = pair[1]
    return found


def _best(entries: Sequence[Entry], main: str) -> frozenset[tuple[str, str]]:
    groups = _compared(entries, main)
    return frozenset((row, groups[row].label) for row in best_of(groups))


def _ranks(parts: Sequence[Sequence[Entry]], main: str) -> dict[tuple[str, str], Rank]:
    """Return the mean rank of every method with runs over the columns in which all of them have runs."""
    compared = [_compared(part, main) for part in parts]
    rows = {row for groups in compared for row in groups}
    shared = [(part, groups) for part, groups in zip(parts, compared, strict=True) if set(groups) == rows]
    if len(rows) < 2 or not shared:
        return {}
    ours = mean_ranks([{row: group.chosen.mean for row, group in groups.items()} for _, groups in shared])
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


# Files ----------------------------------------------------------------------------------------------------------------


def paper_table_files(table: TableResults, level: int = 1) -> TableFiles:
    """Render a table: Markdown under a heading of this level, LaTeX, and plain data with accuracies in percent.

    Markdown has all matrices and blocks with runs, LaTeX the matrices. The plain data have a row for each group of runs
    and for each cell without runs.
    """
    rows = [_plain_row(entry, group) for entry in table.entries for group in entry.groups or (None,)]
    return TableFiles(markdown=_markdown(table, level), latex=_latex(table), rows=rows)


def group_cells(group: Group) -> list[str]:
    """Return the cells under `HEADINGS`, without the method."""
    return [
        f"{spread_text(group.chosen)} (epoch {epochs_text(group.epochs)})",
        spread_text(group.last),
        spread_text(group.memorised) if group.memorised else "",
        str(group.chosen.n),
    ]


def plain_run_fields(group: Group) -> dict[str, Any]:
    """Return plain data about a group of runs."""
    return {
        "variant": group.label,
        "selection": group.selection,
        "chosen_epochs": epochs_text(group.epochs),
        **plain_spread("", group.chosen),
        "n": group.chosen.n,
        "seeds": list(group.seeds),
        "runs": [record.run_id for record in group.records],
        **plain_spread("last_", group.last),
        **plain_spread("memorised_", group.memorised),
    }


NO_RUNS: dict[str, Any] = {
    **dict.fromkeys(("variant", "selection", "chosen_epochs", "mean", "sd")),
    "n": 0,
    "seeds": [],
    "runs": [],
    **dict.fromkeys(("last_mean", "last_sd", "memorised_mean", "memorised_sd")),
}


def plain_spread(prefix: str, spread: Spread | None) -> dict[str, float | None]:
    """Return mean and standard deviation as plain data."""
    mean, sd = (spread.mean, spread.sd) if spread else (None, None)
    return {f"{prefix}mean": plain_number(mean), f"{prefix}sd": plain_number(sd)}


def plain_number(value: float | None) -> float | None:
    """Round to four digits, which removes floating-point noise."""
    return None if value is None else round(value, 4)


def _markdown(table: TableResults, level: int) -> str:
    heading = f"{'#' * level} {table.title}\n"
    if not table.filled:
        return f"{heading}\nNo runs yet: run `{table.command}`.\n"
    filled = sum(bool(entry.groups) for entry in table.published)
    parts = [
        heading,
        f"{filled} of {len(table.published)} cells have runs; `{table.command}` runs the missing ones. Test "
        f"accuracy in percent, mean ± standard deviation over seeds (n − 1). Epoch chosen by: {table.selection}.\n",
    ]
    every = blocks(table)
    if len(every) > 1:
        shown = [matrix for matrix in matrices(table) if matrix.filled]
        ranked = any(matrix.ranks for matrix in shown)
        parts.append(f"{LEGEND}{f' {RANK_LEGEND}' if ranked else ''}\n")
        for matrix in shown:
            parts.append(_matrix_table(matrix, matrix.filled_lines).to_markdown(level + 1))
            if matrix.empty_lines:
                parts.append(_folded_lines(table, matrix))
            columns = [block for block in every if block.filled and block.name in matrix.names]
            parts += [folded(block.title, _block_markdown(block)) for block in columns]
    else:
        parts += [f"{'#' * level}# {block.title}\n\n{_block_markdown(block)}" for block in every if block.filled]
    missing = [f"- {block.title}: `{table.command} --only {block.name}`\n" for block in every if not block.filled]
    if missing:
        parts.append(folded(f"Columns without runs: {len(missing)}", "".join(missing)))
    return "\n".join(parts)


def _folded_lines(table: TableResults, matrix: Matrix) -> str:
    """Return the published numbers of the methods without runs, and the command that runs them."""
    names = ", ".join(dict.fromkeys(line.title for line in matrix.empty_lines))
    published = Table(
        title=matrix.title,
        headings=["method, paper", *matrix.headings],
        align="l" + "r" * len(matrix.columns),
        rows=[
            [
                line.title,
                *(spread_text(entry.cell.published) if entry.cell.published else "" for entry, _ in line.cells),
            ]
            for line in matrix.empty_lines
        ],
    )
    return folded(f"{matrix.title}, without runs: {names}", f"{published.to_markdown()}\n`{matrix.command(table)}`\n")


def _block_markdown(block: Block) -> str:
    """Return the runs of a column in full, and the command that runs the methods without runs."""
    note = main_label_note(block.main_label)
    text = (f"{note}\n\n" if note else "") + _block_table(block).to_markdown()
    return f"{text}\nWithout runs: `{block.command}`\n" if block.command else text


def _latex(table: TableResults) -> str:
    shown = [matrix for matrix in matrices(table) if matrix.filled or not table.filled]
    environments = []
    for matrix in shown:
        title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
        notes = filter(None, (f"{title}.", LEGEND, main_label_note(matrix.main_label)))
        caption = f"{' '.join(notes)} Epoch chosen by: {table.selection or 'no runs yet'}."
        # Published numbers once for each method, in a line of their own.
        environments.append(_matrix_table(matrix, matrix.lines, repeat_published=False).to_latex(caption))
    comment = "% Test accuracy in percent, mean and standard deviation over seeds; below it the published number."
    return latex_file(table.title, environments, comment)


def _matrix_table(matrix: Matrix, lines: Sequence[Line], repeat_published: bool = True) -> Table:
    rows = []
    for line in lines:
        cells = [
            _matrix_cell(entry, group, line, matrix.is_best(line, column), repeat_published)
            for column, (entry, group) in enumerate(line.cells)
        ]
        rows.append(
            [
                _with_variant(line.title, matrix.variant(line)),
                *cells,
                *([_rank_cell(matrix, line)] if matrix.ranks else []),
            ]
        )
    headings = ["method", *matrix.headings, *([RANK_HEADING] if matrix.ranks else [])]
    return Table(
        title=matrix.title,
        note=main_label_note(matrix.main_label),
        headings=headings,
        align="l" + "r" * (len(headings) - 1),
        rows=rows,
    )


def _rank_cell(matrix: Matrix, line: Line) -> str | StackedCell:
    rank = matrix.rank(line)
    if rank is None:
        return ""
    return StackedCell(text=f"{rank.ours:.1f}", below="" if rank.published is None else f"{rank.published:.1f}")


def _matrix_cell(
    entry: Entry, group: Group | None, line: Line, bold: bool, repeat_published: bool
) -> str | StackedCell:
    published = entry.cell.published
    below = spread_text(published) if published and (line.first or repeat_published) else ""
    if group is None:
        return (StackedCell(text="·", below=below) if below else "·") if line.first else ""
    comparison = entry.comparison(group)
    mark = f"({group.chosen.n})" + (f" {comparison.mark}" if comparison else "")
    return StackedCell(text=spread_text(group.chosen), mark=mark, below=below, bold=bold)


def _block_table(block: Block) -> Table:
    compared = any(entry.cell.published for entry in block.entries)
    rows = [_block_cells(entry, group, block) for entry, group in block.rows]
    headings = [*HEADINGS, *COMPARED_HEADINGS] if compared else HEADINGS
    return Table(
        title=block.title,
        note=main_label_note(block.main_label),
        headings=headings,
        align="lrrrrrrl"[: len(headings)],
        rows=[row[: len(headings)] for row in rows],
    )


def _block_cells(entry: Entry, group: Group, block: Block) -> list[str | StackedCell]:
    published = entry.cell.published
    paper = f"{spread_text(published)} (n {published.n or 'not stated'})" if published else ""
    comparison = entry.comparison(group)
    compared = [paper, signed(comparison.difference), comparison.text] if comparison else ["", "", ""]
    chosen, *others, _ = group_cells(group)
    mean, _, epochs = chosen.partition(" (")
    first = StackedCell(text=mean, mark=f"({epochs}", bold=(entry.cell.row, group.label) in block.best)
    title = _with_variant(method_title(entry.cell.row), block.variant(group))
    return [title, first, *others, entry.n_text(group), *compared]


def _with_variant(title: str, label: str) -> str:
    return f"{title} ({label})" if label else title


def _plain_row(entry: Entry, group: Group | None) -> dict[str, Any]:
    cell, published = entry.cell, entry.cell.published
    comparison = entry.comparison(group) if group else None
    return {
        "table": cell.table,
        "cell": cell.group,
        "row": cell.row,
        "dataset": cell.dataset,
        "noise": cell.noise,
        "method": cell.method,
        "network": cell.resolved_network,
        **(plain_run_fields(group) if group else NO_RUNS),
        "trials": cell.trials,
        "paper_mean": published.mean if published else None,
        "paper_sd": published.std if published else None,
        "paper_n": published.n if published else None,
        "difference": plain_number(comparison.difference) if comparison else None,
        "bound": plain_number(comparison.bound) if comparison else None,
        "within": comparison.within if comparison else None,
        "unknown": comparison.unknown if comparison else None,
        "command": None if entry.complete else entry.command,
    }
