"""Write the counts of the last soak into docs/reliability.md; run by `make docs`, and tested."""

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from tnlpad.report.table import Table

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "records" / "soak-cpu.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- counts:begin -->", "<!-- counts:end -->"


def page(text: str, record: Mapping[str, Any]) -> str:
    """Return the page with the part between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{counts(record)}\n{END}{after}"


def counts(record: Mapping[str, Any]) -> str:
    """Describe the last soak: attacks and failures by part, and the kinds that each part attacks."""
    versions = record["versions"]
    text = (
        f"The last recorded soak took {record['minutes']:g} minutes in {record['workers']} "
        f"{'process' if record['workers'] == 1 else 'processes'} "
        f"({record['machine']}; tnlpad {versions['tnlpad']}, torch {versions['torch']}; "
        "[record](../benchmarks/records/soak-cpu.json)). A failure is a broken promise: a result that is lost, "
        "different or changed unnoticed, a process that hangs, a file left behind, or an error that is not one of "
        "tnlpad's own."
    )
    if kills := record.get("kills"):
        text += f" {sum(kills.values()):,} processes were ended by a signal: " + ", ".join(
            f"{count:,} by {name}" for name, count in kills.items()
        )
        text += "."
    rows, kinds_of = [], []
    for part, kinds in record["attacks"].items():
        failed = sum(each["count"] for each in record["failures"].values() if each["part"] == part)
        rows.append([f"`{part}`", f"{sum(kinds.values()):,}", f"{failed:,}"])
        kinds_of.append(paragraph(f"`{part}`: {'; '.join(kinds)}.", first="- ", others="  "))
    table = Table(title="", headings=["attacks", "number", "failures"], align="lrr", rows=rows)
    parts = [paragraph(text), table.to_markdown().strip()]
    if failures := record["failures"]:
        found = [paragraph(f"{kind} ({each['count']:,})", first="- ", others="  ") for kind, each in failures.items()]
        parts.append("Failures, which the record says how to repeat:\n\n" + "\n".join(found))
    return "\n\n".join([*parts, "What was attacked:\n\n" + "\n".join(kinds_of)])


def paragraph(text: str, first: str = "", others: str = "") -> str:
    """Return text in lines of at most 120 characters."""
    return fill(
        text, 120, break_on_hyphens=False, break_long_words=False, initial_indent=first, subsequent_indent=others
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(), json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main()
