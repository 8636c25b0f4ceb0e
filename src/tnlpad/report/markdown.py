"""A table as Markdown."""

from collections.abc import Iterator

from tnlpad.report.groups import Group
from tnlpad.report.layout import LEGEND, Block, Matrix, blocks, label_beside, matrices, said_once
from tnlpad.report.results import Entry, TableResults, compare
from tnlpad.report.tables import (
    agreement_mark,
    agreement_text,
    epochs_text,
    markdown_row,
    n_text,
    published_text,
    signed,
    spread_text,
)
from tnlpad.report.words import method_title

HEADINGS = ("method", "chosen epoch", "last epoch", "wrong labels memorised", "n")
COMPARED_HEADINGS = ("paper", "difference", "within two standard errors?")


def markdown(table: TableResults, level: int = 1) -> str:
    """The whole table: an overview for each dataset, and every column that has runs in full.

    Args:
        table: What to write.
        level: Of its heading.
    """
    heading = "#" * level
    lines = [f"{heading} {table.title}", ""]
    if not table.filled:
        return "\n".join([*lines, f"No runs yet: `{table.command}` makes them.", ""])
    lines += [
        f"{len(table.filled)} of {len(table.entries)} cells have runs; `{table.command}` runs what is missing. Test "
        "accuracy in percent, mean ± standard deviation over seeds (n − 1). Epoch chosen by: "
        f"{'; '.join(table.selections)}.",
        "",
    ]
    if len(blocks(table)) > 1:
        lines += [LEGEND, ""]
        for matrix in matrices(table):
            if matrix.filled:
                lines += [f"{heading}# {matrix.title}", "", *_matrix(matrix), ""]
    for block in blocks(table):
        if block.filled:
            lines += [f"{heading}# {block.title}", "", *_block(block), ""]
    missing = [f"- {block.title}: `{table.command} --only {block.name}`" for block in blocks(table) if not block.filled]
    return "\n".join([*lines, *([f"{heading}# Without runs", "", *missing, ""] if missing else [])])


def _matrix(matrix: Matrix) -> Iterator[str]:
    yield from _paragraph(said_once(matrix.main_label))
    yield markdown_row(["method", *matrix.headings])
    yield markdown_row(["---", *["---:"] * len(matrix.columns)])
    for line in matrix.lines:
        cells = (_cell(entry, group, line.first) for entry, group in line.cells)
        yield markdown_row([matrix.title_of(line), *cells])


def _paragraph(text: str) -> list[str]:
    return [text, ""] if text else []


def _cell(entry: Entry, group: Group | None, first: bool) -> str:
    """Ours above the paper's; a variant's line says nothing of cells that it does not have."""
    if group is None and not first:
        return ""
    published = entry.cell.published
    paper = "" if published is None else f"<br>{spread_text(published)}"
    if group is None:
        return f"·{paper}"
    mark = "" if published is None else f" {agreement_mark(compare(group.chosen, published))}"
    return f"**{spread_text(group.chosen)}**{mark}{paper}"


def _block(block: Block) -> Iterator[str]:
    yield from _paragraph(said_once(block.main_label))
    compared = any(entry.cell.published for entry in block.entries)
    headings = [*HEADINGS, *COMPARED_HEADINGS] if compared else [*HEADINGS]
    yield markdown_row(headings)
    yield markdown_row(["---", *["---:"] * 4, *(["---:", "---:", "---"] if compared else [])])
    for entry, group in block.rows:
        cells = _cells(entry, group, block) if group else _empty_cells(entry)
        yield markdown_row(cells[: len(headings)])


def _cells(entry: Entry, group: Group, block: Block) -> list[str]:
    published = entry.cell.published
    comparison = None if published is None else compare(group.chosen, published)
    label = label_beside(group.label, block.main_label)
    title = method_title(entry.cell.row)
    return [
        f"{title} ({label})" if label else title,
        *group_cells(group)[:-1],
        n_text(entry, group),
        published_text(published),
        signed(comparison.difference) if comparison else "",
        agreement_text(comparison) if comparison else "",
    ]


def group_cells(group: Group) -> list[str]:
    """Under `HEADINGS`, all but the method."""
    return [
        f"{spread_text(group.chosen)} (epoch {epochs_text(group.epochs)})",
        spread_text(group.last),
        spread_text(group.memorised) if group.memorised else "",
        str(group.chosen.n),
    ]


def _empty_cells(entry: Entry) -> list[str]:
    """The command stands where there is room for it, whether or not there is a published number."""
    title = method_title(entry.cell.row)
    return [title, f"`{entry.command}`", "", "", "0", published_text(entry.cell.published), "", ""]
