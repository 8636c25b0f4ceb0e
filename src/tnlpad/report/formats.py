"""A table as Markdown, CSV, plain data and LaTeX."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from tnlpad.paper.cells import Published
from tnlpad.report.layout import Block, Line, Matrix, blocks, label_beside, matrices
from tnlpad.report.results import Comparison, Entry, Group, TableResults, compare
from tnlpad.report.tables import agreement_mark, agreement_text, epochs_text, signed, spread_text
from tnlpad.report.words import method_title

LEGEND = (
    "Ours above, the published number below. ≈ within two standard errors of it, ▲ above and ▼ below by more, ? where "
    "that cannot be said, · where there are no runs."
)
HEADINGS = ("method", "chosen epoch", "last epoch", "wrong labels memorised", "n")
COMPARED_HEADINGS = ("paper", "difference", "within two standard errors?")


# Markdown -------------------------------------------------------------------------------------------------------------


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
                lines += [f"{heading}# {matrix.title}", "", *_markdown_matrix(matrix), ""]
    for block in blocks(table):
        if block.filled:
            lines += [f"{heading}# {block.title}", "", *_markdown_block(block), ""]
    missing = [f"- {block.title}: `{table.command} --only {block.name}`" for block in blocks(table) if not block.filled]
    return "\n".join([*lines, *([f"{heading}# Without runs", "", *missing, ""] if missing else [])])


def _markdown_matrix(matrix: Matrix) -> Iterator[str]:
    yield from _markdown_variant(matrix.main_label)
    yield _markdown_row(["method", *matrix.headings])
    yield _markdown_row(["---", *["---:"] * len(matrix.columns)])
    for line in matrix.lines:
        cells = (_markdown_cell(entry, group, line.first) for entry, group in line.cells)
        yield _markdown_row([_line_title(line, matrix), *cells])


def _markdown_variant(label: str) -> list[str]:
    return [_variant(label).strip(), ""] if label else []


def _markdown_cell(entry: Entry, group: Group | None, first: bool) -> str:
    """Ours above the paper's; a variant's line says nothing of cells that it does not have."""
    if group is None and not first:
        return ""
    published = entry.cell.published
    paper = "" if published is None else f"<br>{spread_text(published)}"
    if group is None:
        return f"·{paper}"
    mark = "" if published is None else f" {agreement_mark(compare(group.chosen, published))}"
    return f"**{spread_text(group.chosen)}**{mark}{paper}"


def _markdown_block(block: Block) -> Iterator[str]:
    yield from _markdown_variant(block.main_label)
    compared = any(entry.cell.published for entry in block.entries)
    headings = [*HEADINGS, *COMPARED_HEADINGS] if compared else [*HEADINGS]
    yield _markdown_row(headings)
    yield _markdown_row(["---", *["---:"] * 4, *(["---:", "---:", "---"] if compared else [])])
    for entry, group in block.rows:
        cells = _cells(entry, group, block) if group else _empty_cells(entry)
        yield _markdown_row(cells[: len(headings)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(entry: Entry, group: Group, block: Block) -> list[str]:
    published = entry.cell.published
    comparison = None if published is None else compare(group.chosen, published)
    label = label_beside(group.label, block.main_label)
    title = method_title(entry.cell.row)
    return [
        f"{title} ({label})" if label else title,
        f"{spread_text(group.chosen)} (epoch {epochs_text(group.epochs)})",
        spread_text(group.last),
        spread_text(group.memorised) if group.memorised else "",
        n_text(entry, group),
        published_text(published),
        signed(comparison.difference) if comparison else "",
        agreement_text(comparison) if comparison else "",
    ]


def _empty_cells(entry: Entry) -> list[str]:
    """The command stands where there is room for it, whether or not there is a published number."""
    title = method_title(entry.cell.row)
    return [title, f"`{entry.command}`", "", "", "0", published_text(entry.cell.published), "", ""]


def published_text(published: Published | None) -> str:
    """With n, where the paper says it."""
    if published is None:
        return ""
    return f"{spread_text(published)} (n {published.n or 'not stated'})"


def n_text(entry: Entry, group: Group) -> str:
    """How many seeds, and of how many where some are missing."""
    missing = group.chosen.n < entry.cell.trials
    return f"{group.chosen.n} of {entry.cell.trials}" if missing else str(group.chosen.n)


def _line_title(line: Line, matrix: Matrix) -> str:
    label = label_beside(line.label, matrix.main_label) if line.filled else ""
    return f"{line.title} ({label})" if label else line.title


# CSV ------------------------------------------------------------------------------------------------------------------


def csv_text(table: TableResults) -> str:
    """A row for each group of runs and for each empty cell; accuracies in percent."""
    stream = io.StringIO()
    plain = rows(table)
    writer = csv.DictWriter(stream, list(plain[0]), lineterminator="\n")
    writer.writeheader()
    for row in plain:
        writer.writerow({**row, **{key: " ".join(map(str, row[key])) for key in ("seeds", "runs")}})
    return stream.getvalue()


def rows(table: TableResults) -> list[dict[str, Any]]:
    """The same as plain data, None where there is nothing to say."""
    return [_row(entry, group) for entry in table.entries for group in entry.groups or (None,)]


def _row(entry: Entry, group: Group | None) -> dict[str, Any]:
    cell, published = entry.cell, entry.cell.published
    return {
        "table": cell.table,
        "cell": cell.group,
        "row": cell.row,
        "dataset": cell.dataset,
        "noise": cell.noise,
        "method": cell.method,
        "network": cell.resolved_network,
        **(_of_runs(group) if group else NO_RUNS),
        "trials": cell.trials,
        "paper_mean": published.mean if published else None,
        "paper_sd": published.std if published else None,
        "paper_n": published.n if published else None,
        **_of_comparison(compare(group.chosen, published) if group and published else None),
        "command": None if entry.complete else entry.command,
    }


def _of_runs(group: Group) -> dict[str, Any]:
    memorised = group.memorised
    return {
        "variant": group.label,
        "selection": group.selection,
        "chosen_epochs": epochs_text(group.epochs),
        "mean": _digits(group.chosen.mean),
        "sd": _digits(group.chosen.sd),
        "n": group.chosen.n,
        "seeds": list(group.seeds),
        "runs": [record.run_id for record in group.records],
        "last_mean": _digits(group.last.mean),
        "last_sd": _digits(group.last.sd),
        "memorised_mean": _digits(memorised.mean) if memorised else None,
        "memorised_sd": _digits(memorised.sd) if memorised else None,
    }


NO_RUNS: dict[str, Any] = {
    **dict.fromkeys(("variant", "selection", "chosen_epochs", "mean", "sd")),
    "n": 0,
    "seeds": [],
    "runs": [],
    **dict.fromkeys(("last_mean", "last_sd", "memorised_mean", "memorised_sd")),
}


def _of_comparison(comparison: Comparison | None) -> dict[str, Any]:
    return {
        "difference": _digits(comparison.difference) if comparison else None,
        "bound": _digits(comparison.bound) if comparison else None,
        "within": comparison.within if comparison else None,
        "unknown": comparison.unknown if comparison else None,
    }


def _digits(value: float | None) -> float | None:
    """Enough for any table, and no rounding noise."""
    return None if value is None else round(value, 4)


# LaTeX ----------------------------------------------------------------------------------------------------------------

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
    return "\n".join([*head, *(line for matrix in shown for line in _latex_matrix(table, matrix))]) + "\n"


def _latex_matrix(table: TableResults, matrix: Matrix) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"\centering\footnotesize\setlength{\tabcolsep}{3pt}"
    rules = "; ".join(table.selections) or "no runs yet"
    title = table.title if matrix.title == table.title else f"{table.title}: {matrix.title}"
    yield rf"\caption{{{escape_latex(f'{title}. {LEGEND}{_variant(matrix.main_label)} Epoch chosen by: {rules}.')}}}"
    yield rf"\begin{{tabular}}{{l{'r' * len(matrix.columns)}}}"
    yield r"\hline"
    yield " & ".join(["", *map(escape_latex, matrix.headings)]) + r" \\"
    yield r"\hline"
    for line in matrix.lines:
        ours = [_latex_ours(entry, group, line.first) for entry, group in line.cells]
        yield " & ".join([escape_latex(_line_title(line, matrix)), *ours]) + r" \\"
        if line.first and any(entry.cell.published for entry, _ in line.cells):
            yield " & ".join(["", *(_latex_paper(entry) for entry, _ in line.cells)]) + r" \\"
    yield r"\hline"
    yield r"\end{tabular}"
    yield r"\end{table}"


def _variant(label: str) -> str:
    return f" Runs, where nothing else is said: {label}." if label else ""


def _latex_ours(entry: Entry, group: Group | None, first: bool) -> str:
    if group is None:
        return escape_latex("·") if first else ""
    published = entry.cell.published
    mark = "" if published is None else f" {agreement_mark(compare(group.chosen, published))}"
    return escape_latex(f"{spread_text(group.chosen)}{mark}")


def _latex_paper(entry: Entry) -> str:
    published = entry.cell.published
    return "" if published is None else rf"{{\scriptsize {escape_latex(spread_text(published))}}}"
