"""Tables of text, rendered as Markdown and CSV; `report.latex` renders them as LaTeX."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.spreadsheets import Formulas

LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
BAR = re.compile(r"(\\*)\|")


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
        lines = [f"{'#' * level} {markdown_text(self.title)}", ""] if level else []
        lines += [markdown_text(self.note), ""] if level and self.note else []
        rule = ["---" if side == "l" else "---:" for side in self.align]
        return "\n".join([*lines, *map(markdown_row, (self.headings, rule, *self.rows))]) + "\n"


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """The contents of tables/NAME.md, NAME.tex and NAME.csv. The CSV file holds `rows`, which are plain data."""

    markdown: str
    latex: str
    rows: Sequence[Mapping[str, Any]]

    def by_suffix(self, formulas: Formulas | None = None) -> dict[str, str]:
        """Return the contents by the suffixes of the files; `formulas` finds those in the CSV file."""
        return {"md": self.markdown, "csv": to_csv(self.rows, formulas), "tex": self.latex}


def markdown_row(cells: Iterable[str | StackedCell]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(map(_markdown_cell, cells))} |"


def folded(summary: str, body: str) -> str:
    """Return Markdown that opens on a click, in renderers that allow HTML."""
    return f"<details>\n<summary>{markdown_text(summary)}</summary>\n\n{body.strip()}\n\n</details>\n"


def markdown_text(text: str) -> str:
    """Return text for Markdown on one line, without HTML, links and images: names may come from others' records."""
    return LINE_BREAKS.sub(" ", text).replace("&", "&amp;").replace("<", "&lt;").replace("[", "&#91;")


def markdown_code(text: str) -> str:
    """Return code for Markdown on one line, between more backticks than it contains."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{LINE_BREAKS.sub(' ', text)}{fence}"


def to_csv(rows: Sequence[Mapping[str, Any]], formulas: Formulas | None = None) -> str:
    """Return rows with the same keys, at least one, as CSV. Lists become words separated by spaces."""
    stream, header = io.StringIO(), list(rows[0])
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    lines = ([_plain(row[name]) for name in header] for row in rows)
    writer.writerows(lines if formulas is None else formulas.passed(lines))
    return stream.getvalue()


def _plain(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _markdown_cell(cell: str | StackedCell) -> str:
    if not isinstance(cell, StackedCell):
        return _cell_text(cell)
    text = f"**{_cell_text(cell.text)}**" if cell.bold else _cell_text(cell.text)
    below = f"<br>{_cell_text(cell.below)}" if cell.below else ""
    return text + (f" {_cell_text(cell.mark)}" if cell.mark else "") + below


def _cell_text(text: str) -> str:
    """Return text without anything that ends a cell; backslashes before a bar would escape the one that escapes it."""
    return BAR.sub(r"\1\1\\|", markdown_text(text))
