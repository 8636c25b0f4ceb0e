"""`tnlpad clean`: the labels of a run's data with the suspects corrected or dropped, as a table to train on."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tnlpad.cli.find_run import judged
from tnlpad.cli.output import fail, print_json

Action = Literal["correct", "drop"]


def clean(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or its name.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write, such as manifest.csv.")],
    action: Annotated[
        Action, typer.Option(help="What happens to a label in doubt: the suggested one instead, or no such sample.")
    ] = "correct",
    confidence: Annotated[
        float, typer.Option(metavar="SHARE", min=0.5, max=1.0, help="Only labels that are wrong this probably.")
    ] = 0.9,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders lie.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON document.")] = False,
) -> None:
    """Write all samples as a table with the doubtful labels corrected or dropped.

    The label as it was given stays beside the new one, in original_label.

    Example: tnlpad clean RUN --out manifest.csv --confidence 0.9
    """
    from tnlpad.suspects.cleaning import HEADER, Change, cleaned
    from tnlpad.suspects.export import write_rows

    if out.is_dir() or out.suffix.lower() != ".csv":
        fail(f"--out {out}: name a file that ends in .csv.", code=2)
    found = judged(run, runs)
    rows = list(cleaned(found.ranking, found.scores, found.names, Change(action=action, least_confidence=confidence)))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_rows(out, HEADER, rows)
    except OSError as error:
        fail(f"cannot write {out} ({error.strerror or error}). Free some space there, or name another file.")
    total = len(found.scores)
    changed = sum(row[HEADER.index("changed")] == "yes" for row in rows)
    if as_json:
        print_json(
            {"file": str(out), "samples": total, "kept": len(rows), "corrected": changed, "dropped": total - len(rows)}
        )
    else:
        typer.echo(f"{len(rows):,} of {total:,} samples kept, {changed:,} labels corrected: {out}")
