"""What a person decided about suspects, as the page of the list saves it: ids, each with the label that is right.

Any table with the columns `id` and `label` will do; a row without a label means that no label fits.
"""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from tnlpad.records.store import RecordError

Review = Mapping[str, str | None]  # the right label by id; None where none fits


def read_review(path: Path, ids: Iterable[str]) -> Review:
    """The decisions in a CSV file, each about one of these ids."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            # A spreadsheet may have saved it again, with semicolons.
            rows = csv.DictReader(file, delimiter=max(",;\t", key=heading.count))
            if missing := {"id", "label"} - set(rows.fieldnames or ()):
                raise RecordError(
                    f"{path} has no column {sorted(missing)[0]}: give what the page of suspects saves, or a table with "
                    "the columns id and label."
                )
            found = _decisions(rows, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{path} cannot be read as a table ({reason}).") from error
    if unknown := found.keys() - set(ids):
        raise RecordError(
            f"{path} is about {min(unknown)[:80]!r}, which is no sample of this run: it is the review of another one."
        )
    return found


def _decisions(rows: "csv.DictReader[str]", path: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for row in rows:
        if row["label"] is None:  # and not an empty field, which means that no label fits
            raise RecordError(
                f"{path}, line {rows.line_num}: the row ends before its label. Complete it, or remove it."
            )
        label = row["label"].strip() or None
        if found.setdefault(row["id"], label) != label:
            raise RecordError(f"{path} has two labels for {row['id'][:80]!r}: {found[row['id']]!r} and {label!r}.")
    return found
