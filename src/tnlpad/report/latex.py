"""A table as LaTeX."""

from collections.abc import Iterable, Iterator

from tnlpad.report.groups import Group
from tnlpad.report.layout import LEGEND, Matrix, matrices, said_once
from tnlpad.report.results import Entry, TableResults, compare
from tnlpad.report.tables import agreement_mark, spread_text

SPECIAL = {
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


def escape_latex(text: str) -> str:
    """Text as LaTeX prints it, whatever it holds."""
    return "".join(SPECIAL.get(character, character) for character in text)


def latex(table: TableResults) -> str:
    """A table environment for each dataset, without any package; the paper's numbers in a second, smaller line."""
    head = [
        f"% {table.title}. Written by `tnlpad report` from records; needs no package.",
        "% Test accuracy in percent, mean and standard deviation over seeds; below it the published number.",
    ]
    shown = [matrix for matrix in matrices(table) if matrix.filled or not table.filled]
    return "\n".join([*head, *(line for matrix in shown for line in _matrix(table, matrix))]) + "\n"


def environment(caption: str, headings: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> Iterator[str]:
    """The lines of a table; the cells of its rows are LaTeX already, everything else is not.

    Args:
        caption: Above it.
        headings: Of all columns but the first.
        rows: Its cells.
        words: How many columns from the left hold words, and not numbers.
    """
    columns = ["", *map(escape_latex, headings)]
    yield r"\begin{table}"
    yield r"\centering\footnotesize\setlength{\tabcolsep}{3pt}"
    yield rf"\caption{{{escape_latex(caption)}}}"
    yield rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(columns) - words)}}}"
    yield r"\hline"
    yield " & ".join(columns) + r" \\"
    yield r"\hline"
    for row in rows:
        yield " & ".join(row) + r" \\"
    yield r"\hline"
    yield r"\end{tabular}"
    yield r"\end{table}"


def _matrix(table: TableResults, matrix: Matrix) -> Iterator[str]:
    rules = "; ".join(table.selections) or "no runs yet"
    runs = f" {said}" if (said := said_once(matrix.main_label)) else ""
    title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
    return environment(f"{title}. {LEGEND}{runs} Epoch chosen by: {rules}.", matrix.headings, _rows(matrix))


def _rows(matrix: Matrix) -> Iterator[list[str]]:
    for line in matrix.lines:
        yield [escape_latex(matrix.title_of(line)), *(_ours(*cell, line.first) for cell in line.cells)]
        if line.first and any(entry.cell.published for entry, _ in line.cells):
            yield ["", *(_paper(entry) for entry, _ in line.cells)]


def _ours(entry: Entry, group: Group | None, first: bool) -> str:
    if group is None:
        return escape_latex("·") if first else ""
    published = entry.cell.published
    mark = "" if published is None else f" {agreement_mark(compare(group.chosen, published))}"
    return escape_latex(f"{spread_text(group.chosen)}{mark}")


def _paper(entry: Entry) -> str:
    published = entry.cell.published
    return "" if published is None else rf"{{\scriptsize {escape_latex(spread_text(published))}}}"
