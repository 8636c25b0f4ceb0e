r"""Tables as LaTeX that fit a page.

A file that is read by `\input` does not know the class of its document. `table*` and `sidewaystable*` take the width of
the page in one and in two columns of text. A wide table is turned sideways, a long one continues in further floats, and
one that is still wider than its line is shrunk to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tnlpad.report.table import Row, StackedCell, Table

CHARACTERS = {
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
    "\u2009": r"\,",
    "’": "'",
}
PACKAGES = {r"\resizebox": "graphicx", "sidewaystable": "rotating"}  # command: package that defines it
# Widths in digits of \footnotesize, which are 4.25 pt wide. The text of an article is 345 pt wide in one column and
# about 500 pt in two, each of which is 240 pt wide; sideways it is 550 pt.
COLUMN_LETTERS, UPRIGHT_LETTERS = 54, 95
GAP_LETTERS = 1.4  # between two columns of a table
SMALL = 0.9  # width of \scriptsize relative to \footnotesize
UPRIGHT_LINES, SIDEWAYS_LINES = 40, 24  # of a float, beside its caption and headings
SHRUNK_TO_LINE = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def latex_table(table: Table, caption: str) -> str:
    """Return a table as a float, or as several if it is long. The first column has no heading."""
    letters = _letters(table)
    sideways = letters > UPRIGHT_LETTERS
    environment = "sidewaystable*" if sideways else "table*" if letters > COLUMN_LETTERS else "table"
    parts = _parts(table.rows, SIDEWAYS_LINES if sideways else UPRIGHT_LINES)
    captions = [caption, *[f"{table.title}, continued."] * len(table.rows)]
    return "".join(_float(table, rows, text, environment) for rows, text in zip(parts, captions, strict=False))


def latex_file(title: str, tables: Iterable[str]) -> str:
    """Return a LaTeX file of floats under a comment that names the packages they need."""
    body = "".join(tables)
    needed = ",".join(package for command, package in PACKAGES.items() if command in body)
    return f"% {title}. Written by `tnlpad report` from records; needs \\usepackage{{{needed}}}.\n{body}"


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints literally, with thin spaces around ±."""
    return "".join(CHARACTERS.get(character, character) for character in text.replace(" ± ", "\u2009±\u2009"))


def _float(table: Table, rows: Sequence[Row], caption: str, environment: str) -> str:
    lines = [
        rf"\begin{{{environment}}}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape_latex(caption)}}}\smallskip",
        SHRUNK_TO_LINE,
        rf"\begin{{tabular}}{{{table.align}}}",
        r"\hline",
        *_headings(table),
        r"\hline",
        *(line for row in rows for line in _row_lines(row)),
        r"\hline",
        r"\end{tabular}}",
        rf"\end{{{environment}}}",
        "",
    ]
    return "\n".join(lines)


def _headings(table: Table) -> Iterator[str]:
    """Yield the headings; neighbours share the upper line of a heading of two lines."""
    heads = _heads(table)
    if any(upper for upper, _ in heads):
        spans = [(upper, len(list(same))) for upper, same in groupby(upper for upper, _ in heads)]
        yield _line(["", *(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(upper)}}}" for upper, count in spans)])
    yield _line(["", *(escape_latex(lower) for _, lower in heads)])


def _heads(table: Table) -> Sequence[tuple[str, str]]:
    """Return the upper and the lower line of each heading but the first."""
    return list(table.short_headings)[1:] or [("", heading) for heading in table.headings[1:]]


def _row_lines(row: Row) -> Iterator[str]:
    """Yield the first lines of the cells, and the second ones in small type if there are any."""
    cells = _stacked(row)
    yield _line(map(_first_line, cells))
    if any(cell.below for cell in cells):
        yield _line(rf"{{\scriptsize {escape_latex(cell.below)}}}" if cell.below else "" for cell in cells)


def _first_line(cell: StackedCell) -> str:
    text = escape_latex(cell.text)
    mark = rf"\textsuperscript{{{escape_latex(cell.mark)}}}" if cell.mark else ""
    return (rf"\textbf{{{text}}}" if cell.bold else text) + mark


def _stacked(row: Row) -> list[StackedCell]:
    return [cell if isinstance(cell, StackedCell) else StackedCell(text=cell) for cell in row]


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


# Sizes ----------------------------------------------------------------------------------------------------------------


def _letters(table: Table) -> float:
    """Estimate the width of a table in letters."""
    columns = zip(*map(_stacked, table.rows), strict=True)
    cells = [max(map(_cell_letters, column)) for column in columns] or [0.0] * len(table.headings)
    heads = [0, *(len(lower) for _, lower in _heads(table))]
    return sum(max(pair) + GAP_LETTERS for pair in zip(cells, heads, strict=True))


def _cell_letters(cell: StackedCell) -> float:
    return max(len(cell.text) + SMALL * len(cell.mark), SMALL * len(cell.below))


def _parts(rows: Sequence[Row], lines: int) -> Iterator[list[Row]]:
    """Yield the rows of each float."""
    part: list[Row] = []
    used = 0
    for row in rows:
        needed = len(list(_row_lines(row)))
        if part and used + needed > lines:
            yield part
            part, used = [], 0
        part.append(row)
        used += needed
    yield part
