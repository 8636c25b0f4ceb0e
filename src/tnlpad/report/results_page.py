"""The curves of one column of a table, all methods in one picture.

The page of results: what is here, every table beside the paper's numbers, curves for every column, figures.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from tnlpad import __version__
from tnlpad.paper.cells import SMOKE
from tnlpad.records.archive import FinishedRecord, Problem
from tnlpad.records.store import RecordError
from tnlpad.report import looks, style
from tnlpad.report.datasets import HEADINGS, DatasetFacts
from tnlpad.report.figures import Series, curves, fitting
from tnlpad.report.groups import Group, reported
from tnlpad.report.layout import OURS, Block, blocks, label_beside, matrices
from tnlpad.report.page import environment
from tnlpad.report.results import Comparison, TableResults, compare
from tnlpad.report.selection import LEGEND as SELECTION_LEGEND
from tnlpad.report.selection import NAME as SELECTION
from tnlpad.report.selection import QUANTITIES, Setting, selection_text
from tnlpad.report.selection import TITLE as SELECTION_TITLE
from tnlpad.report.studies import NAME as OTHER
from tnlpad.report.studies import RowKey, Study
from tnlpad.report.tables import agreement_mark, agreement_text, epochs_text, n_text, signed, spread_text
from tnlpad.report.words import counted, method_title, noise_title


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Runs that differ in their seed alone, with what their curve is called and the method that it looks like."""

    method: str
    label: str
    group: Group


def labelled(block: Block) -> list[Labelled]:
    """A group of each method: the variant of most runs, or where there is none of it another one."""
    lines = []
    for entry in block.entries:
        if entry.groups:
            group = next((each for each in entry.groups if each.label == block.main_label), entry.groups[0])
            label = label_beside(group.label, block.main_label)
            words = f"{method_title(entry.cell.row)}{f', {label}' if label else ''}"
            lines.append(Labelled(method=entry.cell.row, label=words, group=group))
    return lines


def block_figures(name: str, title: str, lines: Sequence[Labelled]) -> list[Markup]:
    """Test accuracy and memorisation of every method, as far as their curves can be read.

    Args:
        name: An id of the block on its page.
        title: Of the block.
        lines: In the order of its table.
    """
    ordered = list(reversed(lines))  # TNLPAD comes last in tables, and should be drawn last of all
    ordered.sort(key=lambda line: looks.look(line.method).width)
    figures = []
    for quantity, words, y_label in (
        ("test", "Test accuracy over the epochs", "test accuracy, %"),
        ("memorised", "Wrong training labels memorised over the epochs", "memorised, %"),
    ):
        series = [each for line in ordered if (each := _series(line, quantity)) is not None]
        if series:
            drawn = curves(f"{name}-{quantity}", f"{words}: {title}", y_label, series, limits=fitting(series))
            figures.append(Markup(drawn))  # built from numbers and our own words
    return figures


def _series(line: Labelled, quantity: str) -> Series | None:
    values = [row for record in line.group.records if (row := _curve(record, quantity))]
    if not values:
        return None
    look = looks.look(line.method)
    colour = looks.variable(line.method)
    return Series(label=line.label, colour=colour, dashes=look.dashes, width=look.width, values=values)


def _curve(record: FinishedRecord, quantity: str) -> list[float] | None:
    """In percent; None where it cannot be read, of which the reader of records has been told, or does not exist."""
    try:
        run = record.curves
    except RecordError:
        return None
    if quantity == "test":
        return [100 * share for share in run.test_accuracy]
    chosen = [run.memorised[name] for name in reported(run.memorised)]
    if not chosen or any(value is None for curve in chosen for value in curve):
        return None
    return [100 * sum(value or 0 for value in column) / len(column) for column in zip(*chosen, strict=True)]


MOST_OPEN_BLOCKS = 3  # a page with more begins with all of them folded
MOST_OPEN_ROWS = 24  # of all studies together
MOST_CURVES = 12  # of a study in one picture


@dataclass(frozen=True, kw_only=True)
class FigureOnPage:
    """A figure, or what makes it where it cannot be drawn yet."""

    name: str
    title: str
    caption: str
    needs: str
    command: str
    findings: str
    svg: str | None


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that the page shows.

    Args:
        records: The runs behind it.
        problems: What was left out, and why.
        tables: Those with runs, and those asked for.
        studies: Those that are in none of the paper's tables, beside what was set up alike.
        selection: What methods keep that pick samples.
        figures: The paper's and some of our own, drawn or not.
        datasets: For the summary of datasets.
        command: What makes this page again.
    """

    records: Sequence[FinishedRecord]
    problems: Sequence[Problem]
    tables: Sequence[TableResults]
    studies: Sequence[Study]
    selection: Sequence[Setting]
    figures: Sequence[FigureOnPage]
    datasets: Sequence[DatasetFacts]
    command: str


def results_page(contents: Contents) -> str:
    """The page, from its contents alone."""
    filled = [table for table in contents.tables if table.filled]
    shown = {table.name: [block for block in blocks(table) if block.filled] for table in filled}
    few = sum(map(len, shown.values())) <= MOST_OPEN_BLOCKS
    return (
        environment()
        .get_template("results.html.j2")
        .render(
            contents=contents,
            filled=filled,
            empty=[table for table in contents.tables if not table.filled],
            shown=shown,
            open_blocks=few,
            open_studies=sum(len(study.rows) for study in contents.studies) <= MOST_OPEN_ROWS,
            open_selection=sum(len(setting.rows) for setting in contents.selection) <= MOST_OPEN_ROWS,
            verdict=verdict(filled),
            counts={table.name: _counts(table) for table in filled},
            facts=_facts(contents.records),
            warnings=[problem for problem in contents.problems if problem.kind in ("damaged", "conflicting")],
            notes=_notes(contents.problems),
            headings=HEADINGS,
            version=__version__,
            colours=Markup(style.stylesheet() + looks.stylesheet()),
            block_figures=_block_figures,
            study_figures=_study_figures,
            selection_drawn=any(figure.name == SELECTION and figure.svg for figure in contents.figures),
            shown_names={name: {block.name for block in each} for name, each in shown.items()},
            anchor=_anchor,
            is_paper=lambda table: table.name != SMOKE,
            **WORDS,
        )
    )


def verdict(tables: Iterable[TableResults]) -> str:
    """How the runs compare with the paper, in a sentence or two, whichever way it went."""
    comparisons = [comparison for table in tables for comparison in table.comparisons]
    if not comparisons:
        return (
            "None of these runs belongs to a cell with a published number, so there is nothing of the paper’s to "
            "compare them with."
        )
    within = sum(each.within is True for each in comparisons)
    above, below = (
        sum(each.within is False and sign * each.difference > 0 for each in comparisons) for sign in (1, -1)
    )
    known = within + above + below
    sentences = []
    if known:
        outside = "".join(f", {count} {where}" for count, where in ((above, "above"), (below, "below")) if count)
        sentences.append(
            f"Of {counted(known, 'comparison')} with a published number, {within} "
            f"{'lies' if within == 1 else 'lie'} within two standard errors of it{outside}."
        )
    if unknown := len(comparisons) - known:
        sentences.append(
            f"Of {unknown}{' more' if known else ''} it cannot be said, since we have one seed or the paper does not "
            "say its spread or n."
        )
    return " ".join(sentences)


def _block_figures(table: TableResults, block: Block) -> list[Markup]:
    return block_figures(_anchor(table.name, block.name), block.title, labelled(block))


def _study_figures(name: str, title: str, rows: Sequence[tuple[RowKey, Group]]) -> list[Markup]:
    """Nothing of so many rows that no curve could be told from another."""
    if len(rows) > MOST_CURVES:
        return []
    times = Counter(key.method for key, _ in rows)  # the table says all of a method that is there once
    labels = [method_title(key.method) if times[key.method] == 1 else key.title for key, _ in rows]
    lines = [
        Labelled(method=key.method, label=label, group=group) for (key, group), label in zip(rows, labels, strict=True)
    ]
    return block_figures(name, title, lines)


def _anchor(table: str, block: str) -> str:
    """An id for a block: the same column may stand in several tables."""
    return f"{table}-{block}".replace("/", "-").replace(".", "-")


def _counts(table: TableResults) -> dict[str, int]:
    complete = sum(entry.complete for entry in table.entries)
    signs = dict.fromkeys(MARKS, 0) | dict(_marks_of(table.comparisons))
    return {"cells": len(table.entries), "filled": len(table.filled), "complete": complete, **signs}


def _marks_of(comparisons: Iterable[Comparison]) -> list[tuple[str, int]]:
    """How many of each sign there are, in the order of the legend."""
    counts = Counter(map(agreement_mark, comparisons))
    return [(sign, counts[sign]) for sign in MARKS if counts[sign]]


def _facts(records: Sequence[FinishedRecord]) -> dict[str, list[str]]:
    """What the runs have in common, or do not: with counts where there is more than one answer."""

    def answers(values: Iterable[str]) -> list[str]:
        counter = Counter(values)
        return [text if len(counter) == 1 else f"{text} ({counted(n, 'run')})" for text, n in counter.most_common()]

    return {
        "seeds": [", ".join(map(str, sorted({record.config["seed"] for record in records})))],
        "machine": answers(str(record.summary.get("machine", "not recorded")) for record in records),
        "versions": answers(_versions(record.summary.get("versions", {})) for record in records),
        "epoch chosen by": answers(record.summary["selection"] for record in records),
        "protocol": answers(str(record.config["protocol"]) for record in records),
    }


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "not recorded"


def _notes(problems: Iterable[Problem]) -> list[str]:
    """What is left out for a good reason is counted, not listed."""
    counts: Counter[str] = Counter(problem.kind for problem in problems)
    words = {
        "unfinished": ("run is not finished yet", "runs are not finished yet"),
        "repeated": ("run was found twice, with the same result", "runs were found twice, with the same results"),
    }
    return [f"{counts[kind]} {texts[counts[kind] > 1]}." for kind, texts in words.items() if counts[kind]]


# Words for the template -----------------------------------------------------------------------------------------------

MARKS = {
    "≈": "within two standard errors",
    "▲": "above the paper by more than two standard errors",
    "▼": "below the paper by more than two standard errors",
    "?": "agreement cannot be said",
}


def _with_code(text: str) -> Markup:
    """Words between backticks are code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )


WORDS: dict[str, Any] = {
    "with_code": _with_code,
    "matrices": matrices,
    "blocks": blocks,
    "compare": compare,
    "spread_text": spread_text,
    "signed": signed,
    "agreement_text": agreement_text,
    "agreement_mark": agreement_mark,
    "epochs_text": epochs_text,
    "n_text": n_text,
    "method_title": method_title,
    "noise_title": noise_title,
    "other": OTHER,
    "selection_name": SELECTION,
    "selection_title": SELECTION_TITLE,
    "selection_legend": SELECTION_LEGEND,
    "selection_text": selection_text,
    "quantities": QUANTITIES,
    "marks": MARKS,
    "marks_of": _marks_of,
    "label_beside": label_beside,
    "ours": OURS,
}
