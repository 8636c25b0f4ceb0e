"""Tables of decisions about labels, as the pages save them: one row per sample, with its id and the right label."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from tnlpad.records.store import RecordError

Review = Mapping[str, str | None]  # the right label by id; None where no label fits


def read_decision_table(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file with the columns `id` and `label`; a spreadsheet may have saved it with semicolons.

    Raises:
        RecordError: The file is no such table.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            rows = csv.DictReader(file, delimiter=max(",;\t", key=heading.count))
            if missing := {"id", "label"} - set(rows.fieldnames or ()):
                raise RecordError(
                    f"{path} has no column {sorted(missing)[0]}. Give the file that the page saves, or a table with "
                    "the columns id and label."
                )
            read = []
            for row in rows:
                if row["label"] is None:  # the row is too short; an empty label is ""
                    raise RecordError(f"{path}, line {rows.line_num}: the label is missing. Complete or remove it.")
                read.append({name: value for name, value in row.items() if isinstance(name, str)})
            return read
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{path} cannot be read as a table ({reason}).") from error


def read_review(path: Path, ids: Iterable[str]) -> Review:
    """Read the right label of each sample that was decided on; an empty label means that none fits.

    Args:
        path: The file that the page of suspects saves, or another table.
        ids: Ids of the run's samples.

    Raises:
        RecordError: The file is no such table, contradicts itself, or is about another run.
    """
    found: dict[str, str | None] = {}
    for row in read_decision_table(path):
        label = row["label"].strip() or None
        if found.setdefault(row["id"], label) != label:
            raise RecordError(f"{path} has two labels for {row['id'][:80]!r}: {found[row['id']]!r} and {label!r}.")
    check_review(found, ids, str(path))
    return found


def check_review(review: Review, ids: Iterable[str], where: str) -> None:
    """Raise `RecordError` if a decision is about a sample that is not in the run."""
    if unknown := review.keys() - set(ids):
        raise RecordError(
            f"{where} has {min(unknown)[:80]!r}, which is not a sample of this run. Is it the review of another run?"
        )
