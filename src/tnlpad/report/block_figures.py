"""The curves of one column of a table, all methods in one picture."""

from markupsafe import Markup

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.store import RecordError
from tnlpad.report import looks
from tnlpad.report.figures import Series, curves, fitting
from tnlpad.report.groups import Group, reported
from tnlpad.report.layout import Block, label_beside
from tnlpad.report.results import Entry
from tnlpad.report.words import method_title


def block_figures(name: str, block: Block) -> list[Markup]:
    """Test accuracy and memorisation of every method in the block, as far as their curves can be read.

    Args:
        name: An id of the block on its page.
        block: What to draw.
    """
    lines = list(reversed(_lines(block)))  # TNLPAD comes last in tables, and should be drawn last of all
    lines.sort(key=lambda line: looks.look(line[0].cell.row).width)
    figures = []
    for quantity, title, y_label in (
        ("test", f"Test accuracy over the epochs: {block.title}", "test accuracy, %"),
        ("memorised", f"Wrong training labels memorised over the epochs: {block.title}", "memorised, %"),
    ):
        series = [each for line in lines if (each := _series(*line, quantity)) is not None]
        if series:
            figures.append(Markup(curves(f"{name}-{quantity}", title, y_label, series, limits=fitting(series))))
    return figures


def _lines(block: Block) -> list[tuple[Entry, Group, str]]:
    """A group of each method, with its label: the variant of most runs, or where there is none of it another one."""
    lines = []
    for entry in block.entries:
        if entry.groups:
            group = next((each for each in entry.groups if each.label == block.main_label), entry.groups[0])
            label = label_beside(group.label, block.main_label)
            lines.append((entry, group, f"{method_title(entry.cell.row)}{f', {label}' if label else ''}"))
    return lines


def _series(entry: Entry, group: Group, label: str, quantity: str) -> Series | None:
    values = [row for record in group.records if (row := _curve(record, quantity))]
    if not values:
        return None
    look = looks.look(entry.cell.row)
    colour = looks.variable(entry.cell.row)
    return Series(label=label, colour=colour, dashes=look.dashes, width=look.width, values=values)


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
