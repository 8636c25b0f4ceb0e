"""A table as LaTeX."""

from collections.abc import Iterator

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


def _matrix(table: TableResults, matrix: Matrix) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"\centering\footnotesize\setlength{\tabcolsep}{3pt}"
    rules = "; ".join(table.selections) or "no runs yet"
    runs = f" {said}" if (said := said_once(matrix.main_label)) else ""
    title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
    yield rf"\caption{{{escape_latex(f'{title}. {LEGEND}{runs} Epoch chosen by: {rules}.')}}}"
    yield rf"\begin{{tabular}}{{l{'r' * len(matrix.columns)}}}"
    yield r"\hline"
    yield " & ".join(["", *map(escape_latex, matrix.headings)]) + r" \\"
    yield r"\hline"
    for line in matrix.lines:
        ours = [_ours(entry, group, line.first) for entry, group in line.cells]
        yield " & ".join([escape_latex(matrix.title_of(line)), *ours]) + r" \\"
        if line.first and any(entry.cell.published for entry, _ in line.cells):
            yield " & ".join(["", *(_paper(entry) for entry, _ in line.cells)]) + r" \\"
    yield r"\hline"
    yield r"\end{tabular}"
    yield r"\end{table}"


def _ours(entry: Entry, group: Group | None, first: bool) -> str:
    if group is None:
        return escape_latex("·") if first else ""
    published = entry.cell.published
    mark = "" if published is None else f" {agreement_mark(compare(group.chosen, published))}"
    return escape_latex(f"{spread_text(group.chosen)}{mark}")


def _paper(entry: Entry) -> str:
    published = entry.cell.published
    return "" if published is None else rf"{{\scriptsize {escape_latex(spread_text(published))}}}"
