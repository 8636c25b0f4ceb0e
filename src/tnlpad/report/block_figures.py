"""The curves of one column of a table, all methods in one picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.store import RecordError
from tnlpad.report import looks
from tnlpad.report.figures import Series, curves, fitting
from tnlpad.report.groups import Group, reported
from tnlpad.report.layout import Block, label_beside
from tnlpad.report.words import method_title


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
