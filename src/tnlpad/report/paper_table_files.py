"""The paper's tables with our runs, written as Markdown, LaTeX and plain data."""

from collections.abc import Sequence
from typing import Any

from tnlpad.report.groups import Group
from tnlpad.report.latex import latex_file, latex_table
from tnlpad.report.paper_tables import (
    BOLD,
    LEGEND,
    MEASURE,
    OURS,
    RANK_LEGEND,
    Block,
    Line,
    Matrix,
    blocks,
    main_label_note,
    matrices,
    without_runs,
)
from tnlpad.report.remarks import Outside, Remarks, outside_table
from tnlpad.report.results import Entry, TableResults
from tnlpad.report.run_fields import HEADINGS, NO_RUNS, group_cells, plain_number, plain_run_fields
from tnlpad.report.table import StackedCell, Table, TableFiles, folded, markdown_code, markdown_text
from tnlpad.report.words import method_title, signed, spread_text

COMPARED_HEADINGS = ("paper", "difference", "within two standard errors?")
NO_REMARKS: Remarks = {}


def paper_table_files(table: TableResults, level: int = 1, remarks: Remarks = NO_REMARKS) -> TableFiles:
    """Render a table: Markdown under a heading of this level, LaTeX, and plain data with accuracies in percent.

    Markdown has all matrices and blocks with runs, LaTeX the matrices. The plain data have a row for each group of runs
    and for each cell without runs.
    """
    rows = [_plain_row(entry, group) for entry in table.entries for group in entry.groups or (None,)]
    return TableFiles(markdown=_markdown(table, level, remarks), latex=_latex(table), rows=rows)


# Markdown -------------------------------------------------------------------------------------------------------------


def _markdown(table: TableResults, level: int, remarks: Remarks) -> str:
    heading = f"{'#' * level} {markdown_text(table.title)}\n"
    if not table.filled:
        return f"{heading}\nNo runs yet: run {markdown_code(table.command)}.\n"
    filled = sum(bool(entry.groups) for entry in table.published)
    parts = [
        heading,
        f"{filled} of {len(table.published)} cells have runs; {markdown_code(table.command)} runs the missing ones. "
        f"{MEASURE} Epoch chosen by: {markdown_text(table.selection)}.\n",
    ]
    every = blocks(table)
    if len(every) > 1:
        shown = [matrix for matrix in matrices(table) if matrix.filled]
        ranked = any(matrix.ranks for matrix in shown)
        parts.append(f"{LEGEND}{f' {RANK_LEGEND}' if ranked else ''}\n")
        for matrix in shown:
            parts.append(_matrix_table(matrix, matrix.filled_lines).to_markdown(level + 1))
            parts += _outside(matrix, remarks)
            if matrix.empty_lines:
                parts.append(_folded_lines(table, matrix))
            columns = [block for block in every if block.filled and block.name in matrix.names]
            parts += [folded(block.title, _block_markdown(block)) for block in columns]
    else:
        parts.append(f"{BOLD}\n")
        parts += [
            f"{'#' * level}# {markdown_text(block.title)}\n\n{_block_markdown(block)}"
            for block in every
            if block.filled
        ]
    if missing := [f"- {markdown_text(title)}: {markdown_code(command)}\n" for title, command in without_runs(table)]:
        count = sum(not block.filled for block in every)
        parts.append(folded(f"Columns without runs: {count}", "".join(missing)))
    return "\n".join(parts)


def _outside(matrix: Matrix, remarks: Remarks) -> list[str]:
    """Return remarks on our method, and a folded table of all cells outside two standard errors of the paper."""
    table, said = outside_table(matrix, remarks)
    if table is None:
        return []
    ours, others = ("".join(_remark_lines(said, ours=ours)) for ours in (True, False))
    body = f"{markdown_text(table.note)}\n\n{table.to_markdown()}\n{others}"
    return [*([ours] if ours else []), folded(table.title, body)]


def _remark_lines(said: Sequence[Outside], *, ours: bool) -> list[str]:
    return [f"- {markdown_text(each.sentence)}\n" for each in said if (each.entry.cell.row in OURS) == ours]


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
    command = markdown_code(matrix.command(table))
    return folded(f"{matrix.title}, without runs: {names}", f"{published.to_markdown()}\n{command}\n")


def _matrix_table(matrix: Matrix, lines: Sequence[Line]) -> Table:
    headings = ["method", *matrix.headings, *([matrix.rank_heading] if matrix.ranks else [])]
    return Table(
        title=matrix.title,
        note=main_label_note(matrix.main_label),
        headings=headings,
        align="l" + "r" * (len(headings) - 1),
        rows=[[_name(matrix, line), *_matrix_cells(matrix, line), *_rank_cells(matrix, line)] for line in lines],
    )


def _name(matrix: Matrix, line: Line) -> str:
    return _with_variant(line.title, matrix.variant(line))


def _matrix_cells(matrix: Matrix, line: Line, *, compact: bool = False) -> list[str | StackedCell]:
    return [_matrix_cell(matrix, line, column, compact) for column in range(len(line.cells))]


def _matrix_cell(matrix: Matrix, line: Line, column: int, compact: bool) -> str | StackedCell:
    """Return a cell; if `compact`, without n, and with the published number only for the first variant of a method."""
    entry, group = line.cells[column]
    published = entry.cell.published
    below = spread_text(published) if published and (line.first or not compact) else ""
    if group is None:
        return (StackedCell(text="·", below=below) if below else "·") if line.first else ""
    comparison = entry.comparison(group)
    marks = ("" if compact else f"({group.chosen.n})", comparison.mark if comparison else "")
    mark = " ".join(filter(None, marks))
    return StackedCell(text=spread_text(group.chosen), mark=mark, below=below, bold=matrix.is_best(line, column))


def _rank_cells(matrix: Matrix, line: Line) -> list[str | StackedCell]:
    """Return the cell of the rank, if the matrix has ranks."""
    rank = matrix.rank(line)
    if rank is None:
        return [""] if matrix.ranks else []
    return [StackedCell(text=f"{rank.ours:.1f}", below="" if rank.published is None else f"{rank.published:.1f}")]


def _block_markdown(block: Block) -> str:
    """Return the runs of a column in full, and the command that runs the methods without runs."""
    note = main_label_note(block.main_label)
    text = (f"{note}\n\n" if note else "") + _block_table(block).to_markdown()
    return f"{text}\nWithout runs: {markdown_code(block.command)}\n" if block.command else text


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


# LaTeX ----------------------------------------------------------------------------------------------------------------


def _latex(table: TableResults) -> str:
    shown = [matrix for matrix in matrices(table) if matrix.filled or not table.filled]
    return latex_file(table.title, (_latex_matrix(table, matrix) for matrix in shown))


def _latex_matrix(table: TableResults, matrix: Matrix) -> str:
    """Return a matrix with n in a column of its own, and published numbers once for each method."""
    title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
    published = any(entry.cell.published for line in matrix.lines for entry, _ in line.cells)
    legend = LEGEND.replace(" with n in brackets", "") if published else BOLD
    ranks = RANK_LEGEND if matrix.ranks else ""
    notes = filter(None, (f"{title}.", MEASURE, legend, ranks, main_label_note(matrix.main_label)))
    rows = [
        [_name(matrix, line), line.n_text, *_matrix_cells(matrix, line, compact=True), *_rank_cells(matrix, line)]
        for line in matrix.lines
    ]
    heads = [("", ""), ("", "n"), *matrix.short_headings, *([("", "rank")] if matrix.ranks else [])]
    return latex_table(
        Table(
            title=title,
            headings=[lower for _, lower in heads],
            short_headings=heads,
            align="l" + "r" * (len(heads) - 1),
            rows=rows,
        ),
        f"{' '.join(notes)} Epoch chosen by: {table.selection or 'no runs yet'}.",
    )


# Plain data -----------------------------------------------------------------------------------------------------------


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
