"""Tables of text, rendered as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

LATEX_CHARACTERS = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "≈": r"$\approx$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "σ": r"$\sigma$",
    "γ": r"$\gamma$",
    "≤": r"$\le$",
    "√": r"$\surd$",
    "²": r"$^2$",
    "–": "--",
    "\u00a0": "~",
    "’": "'",
}


@dataclass(frozen=True, kw_only=True)
class StackedCell:
    """A cell of two lines: a result with its mark, and the published number below; `bold` applies to the result."""

    text: str
    mark: str = ""
    below: str = ""
    bold: bool = False

    @property
    def first_line(self) -> str:
        return f"{self.text} {self.mark}" if self.mark else self.text

    @property
    def latex(self) -> str:
        """The first line as LaTeX."""
        text = escape_latex(self.text)
        return " ".join(filter(None, (rf"\textbf{{{text}}}" if self.bold else text, escape_latex(self.mark))))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and rows of text.

    Args:
        title: Heading of the table.
        headings: One for each column.
        align: A letter for each column: l for text, r for numbers.
        rows: The cells of each row.
        note: Paragraph between title and table.
    """

    title: str
    headings: Sequence[str]
    align: str
    rows: Sequence[Sequence[str | StackedCell]]
    note: str = ""

    def to_markdown(self, level: int = 0) -> str:
        """Return Markdown under a heading of this level; at level 0, the table without title and note."""
        lines = [f"{'#' * level} {self.title}", ""] if level else []
        lines += [self.note, ""] if level and self.note else []
        rule = ["---" if side == "l" else "---:" for side in self.align]
        return "\n".join([*lines, *map(markdown_row, (self.headings, rule, *self.rows))]) + "\n"

    def to_latex(self, caption: str) -> str:
        """Return a table environment that needs no package. The first column has no heading."""
        lines = [
            r"\begin{table}",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escape_latex(caption)}}}",
            rf"\begin{{tabular}}{{{self.align}}}",
            r"\hline",
            _latex_row(["", *map(escape_latex, self.headings[1:])]),
            r"\hline",
        ]
        for row in self.rows:
            cells = [cell if isinstance(cell, StackedCell) else StackedCell(text=cell) for cell in row]
            lines.append(_latex_row(cell.latex for cell in cells))
            if any(cell.below for cell in cells):
                small = (rf"{{\scriptsize {escape_latex(cell.below)}}}" if cell.below else "" for cell in cells)
                lines.append(_latex_row(small))
        return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}", ""])


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


def latex_file(title: str, tables: Iterable[str], *comments: str) -> str:
    """Return a LaTeX file of table environments under a comment."""
    head = [f"% {title}. Written by `tnlpad report` from records; needs no package.", *comments]
    return "\n".join([*head, ""]) + "".join(tables)


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints literally."""
    return "".join(LATEX_CHARACTERS.get(character, character) for character in text)


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


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
