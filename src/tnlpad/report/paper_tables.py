"""The paper's tables with our runs: arranged for reading, and written as Markdown, CSV and LaTeX.

A matrix has the layout of the paper, with a line for each method and variant. A block shows one column of a matrix in
full.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.report.groups import Group, Spread
from tnlpad.report.results import Comparison, Entry, TableResults, comparisons
from tnlpad.report.table import StackedCell, Table, TableFiles, latex_file
from tnlpad.report.words import column_title, dataset_title, epochs_text, group_title, method_title, signed, spread_text

ONE_MATRIX = ("real_world",)  # the columns of this table are datasets
RECIPE_LABEL = "float32"  # label of runs without departures from the recipe
OURS = ("tnlpad", "decomposition+gamma+sigma", "self+tnlpad", "dividemix+tnlpad")
HEADINGS = ("method", "chosen epoch", "last epoch", "wrong labels memorised", "n")
COMPARED_HEADINGS = ("paper", "difference", "within two standard errors?")
LEGEND = (
    "Our result above, the published one below. ≈ within two standard errors, ▲ above and ▼ below by more, ? unknown, "
    "· no runs."
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


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Methods against columns, as in the paper. `names` are the columns as `--only` takes them."""

    title: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def headings(self) -> list[str]:
        return [column_title(column) for column in self.columns]

    @property
    def filled(self) -> bool:
        return any(line.filled for line in self.lines)

    @property
    def main_label(self) -> str:
        """The variant of most runs. It is printed once above the table."""
        return _main_label(group for line in self.lines for _, group in line.cells if group)

    def variant(self, line: Line) -> str:
        """Return the variant of a line with runs, if it is not the main one."""
        return variant_label(line.label, self.main_label) if line.filled else ""


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
    def rows(self) -> Iterator[tuple[Entry, Group | None]]:
        """Every group of runs, and every cell without runs."""
        for entry in self.entries:
            yield from ((entry, group) for group in entry.groups or (None,))

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
    return Matrix(title=title, columns=tuple(columns), names=tuple(columns.values()), lines=tuple(lines))


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
    return {f"{prefix}mean": _rounded(mean), f"{prefix}sd": _rounded(sd)}


def _rounded(value: float | None) -> float | None:
    """Round to four digits, which removes floating-point noise."""
    return None if value is None else round(value, 4)


def _markdown(table: TableResults, level: int) -> str:
    heading = f"{'#' * level} {table.title}\n"
    if not table.filled:
        return f"{heading}\nNo runs yet: run `{table.command}`.\n"
    parts = [
        heading,
        f"{len(table.filled)} of {len(table.entries)} cells have runs; `{table.command}` runs the missing ones. Test "
        f"accuracy in percent, mean ± standard deviation over seeds (n − 1). Epoch chosen by: {table.selection}.\n",
    ]
    every = blocks(table)
    if len(every) > 1:
        parts.append(f"{LEGEND}\n")
        parts += [_matrix_table(each).to_markdown(level + 1) for each in matrices(table) if each.filled]
    parts += [_block_table(block).to_markdown(level + 1) for block in every if block.filled]
    missing = [f"- {block.title}: `{table.command} --only {block.name}`\n" for block in every if not block.filled]
    if missing:
        parts.append(f"{'#' * level}# Without runs\n\n" + "".join(missing))
    return "\n".join(parts)


def _latex(table: TableResults) -> str:
    shown = [matrix for matrix in matrices(table) if matrix.filled or not table.filled]
    environments = []
    for matrix in shown:
        title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
        notes = filter(None, (f"{title}.", LEGEND, main_label_note(matrix.main_label)))
        caption = f"{' '.join(notes)} Epoch chosen by: {table.selection or 'no runs yet'}."
        # Published numbers once for each method, in a line of their own.
        environments.append(_matrix_table(matrix, repeat_published=False).to_latex(caption))
    comment = "% Test accuracy in percent, mean and standard deviation over seeds; below it the published number."
    return latex_file(table.title, environments, comment)


def _matrix_table(matrix: Matrix, repeat_published: bool = True) -> Table:
    rows = []
    for line in matrix.lines:
        cells = (_matrix_cell(entry, group, line, repeat_published) for entry, group in line.cells)
        rows.append([_with_variant(line.title, matrix.variant(line)), *cells])
    return Table(
        title=matrix.title,
        note=main_label_note(matrix.main_label),
        headings=["method", *matrix.headings],
        align="l" + "r" * len(matrix.columns),
        rows=rows,
    )


def _matrix_cell(entry: Entry, group: Group | None, line: Line, repeat_published: bool) -> str | StackedCell:
    published = entry.cell.published
    below = spread_text(published) if published and (line.first or repeat_published) else ""
    if group is None:
        return StackedCell(text="·", below=below) if line.first else ""
    comparison = entry.comparison(group)
    mark = comparison.mark if comparison else ""
    return StackedCell(text=spread_text(group.chosen), mark=mark, below=below, bold=True)


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


def _block_cells(entry: Entry, group: Group | None, block: Block) -> list[str]:
    title, published = method_title(entry.cell.row), entry.cell.published
    paper = f"{spread_text(published)} (n {published.n or 'not stated'})" if published else ""
    if group is None:
        return [title, f"`{entry.command}`", "", "", "0", paper, "", ""]
    comparison = entry.comparison(group)
    compared = [paper, signed(comparison.difference), comparison.text] if comparison else ["", "", ""]
    return [_with_variant(title, block.variant(group)), *group_cells(group)[:-1], entry.n_text(group), *compared]


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
        "difference": _rounded(comparison.difference) if comparison else None,
        "bound": _rounded(comparison.bound) if comparison else None,
        "within": comparison.within if comparison else None,
        "unknown": comparison.unknown if comparison else None,
        "command": None if entry.complete else entry.command,
    }
