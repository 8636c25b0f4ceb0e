"""Tables of text, rendered as Markdown and CSV; `report.latex` renders them as LaTeX."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StackedCell:
    """A cell of two lines: a result with its mark, and the published number below; `bold` applies to the result."""

    text: str
    mark: str = ""
    below: str = ""
    bold: bool = False


Row = Sequence[str | StackedCell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and rows of text.

    Args:
        title: Heading of the table.
        headings: One for each column.
        align: A letter for each column: l for text, r for numbers.
        rows: The cells of each row.
        note: Paragraph between title and table.
        short_headings: Upper and lower line of each heading where there is little space (default: `headings`).
    """

    title: str
    headings: Sequence[str]
    align: str
    rows: Sequence[Row]
    note: str = ""
    short_headings: Sequence[tuple[str, str]] = ()

    def to_markdown(self, level: int = 0) -> str:
        """Return Markdown under a heading of this level; at level 0, the table without title and note."""
        lines = [f"{'#' * level} {self.title}", ""] if level else []
        lines += [self.note, ""] if level and self.note else []
        rule = ["---" if side == "l" else "---:" for side in self.align]
        return "\n".join([*lines, *map(markdown_row, (self.headings, rule, *self.rows))]) + "\n"


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """The contents of tables/NAME.md, NAME.tex and NAME.csv. The CSV file holds `rows`, which are plain data."""

    markdown: str
    latex: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def by_suffix(self) -> dict[str, str]:
        return {"md": self.markdown, "csv": to_csv(self.rows), "tex": self.latex}


def markdown_row(cells: Iterable[str | StackedCell]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(map(_markdown_cell, cells))} |"


def folded(summary: str, body: str) -> str:
    """Return Markdown that opens on a click, in renderers that allow HTML."""
    return f"<details>\n<summary>{escape(summary)}</summary>\n\n{body.strip()}\n\n</details>\n"


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with the same keys, at least one, as CSV. Lists become words separated by spaces."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()})
    return stream.getvalue()


def _markdown_cell(cell: str | StackedCell) -> str:
    if isinstance(cell, StackedCell):
        text = f"**{cell.text}**" if cell.bold else cell.text
        cell = text + (f" {cell.mark}" if cell.mark else "") + (f"<br>{cell.below}" if cell.below else "")
    return cell.replace("|", "\\|")
