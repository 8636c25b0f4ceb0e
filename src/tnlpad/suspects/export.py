"""Write the list of suspects: CSV, Parquet, HTML, Label Studio's JSON, and arrays for cleanlab.

Every file is written by rename, and long ones a few rows at a time.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.data.own.hugging_face import is_hugging_face
from tnlpad.json_text import load_json
from tnlpad.records.checksums import sha256_of
from tnlpad.records.samples import DATA_FILE, DECIDED_FILE, SAMPLES_FILE
from tnlpad.records.scores import SampleScores, write_array
from tnlpad.records.store import to_json
from tnlpad.spreadsheets import Formulas
from tnlpad.suspects import DEFAULT_FORMATS
from tnlpad.suspects.audit_files import FOLDER as AUDIT_FOLDER
from tnlpad.suspects.audit_files import RESULT_FILE
from tnlpad.suspects.listing import RankedRun, Suspect, rank_run

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.from_probabilities import Found

COLUMNS = tuple(field.name for field in fields(Suspect))
CSV_FILE, PAGE_FILE = "suspects.csv", "index.html"
CHECKSUMS_FILE = "checksums.json"  # of the list and the page beside a run
# Names of the control and the image in Label Studio's own template for image classification.
LABEL_STUDIO_CONTROL, LABEL_STUDIO_OBJECT = "choice", "image"


def write_suspects(
    folder: Path,
    formats: Sequence[str],
    run: "RankedRun | Found",
    listed: Sequence[Suspect],
    *,
    data: "OwnDataset | None" = None,
    root: Path | None = None,
    warn: Callable[[str], None],
    spreadsheet_safe: bool = False,
) -> list[Path]:
    """Write the list in each format and return the files.

    Args:
        folder: Folder for the files; created if needed.
        formats: Some of `FORMATS`.
        run: The run, or what was found from probabilities, which has no page.
        listed: Its suspects.
        data: The own data of the run, if they are open already.
        root: Folder that holds the published datasets.
        warn: Called with a sentence if the page cannot show samples, or the CSV file has formulas.
        spreadsheet_safe: Whether formulas in the CSV file become text.
    """
    formulas = Formulas(safe=spreadsheet_safe)

    def table() -> list[Path]:
        written = write_csv(folder / CSV_FILE, listed, formulas)
        if note := formulas.note(written, "tnlpad suspects"):
            warn(f"Note: {note}")
        return [written]

    def page() -> list[Path]:
        from tnlpad.suspects.page import page_of_run

        assert isinstance(run, RankedRun), "only a run has samples to show"
        write_by_rename(folder / PAGE_FILE, page_of_run(run, listed, data, root, warn).encode())
        return [folder / PAGE_FILE]

    writers: dict[str, Callable[[], Sequence[Path]]] = {
        "csv": table,
        "parquet": lambda: [write_parquet(folder / "suspects.parquet", listed)],
        "label-studio": lambda: [write_label_studio(folder / "label-studio.json", listed)],
        "cleanlab": lambda: write_for_cleanlab(folder, run.scores),
        "html": page,
    }
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name in formats for path in writers[name]()]


def write_beside_run(
    folder: "RunFolder", data: "OwnDataset | None", root: Path | None, warn: Callable[[str], None]
) -> tuple[RankedRun, Path]:
    """Write the list and the page of a finished run into its folder, and return the run and the page.

    They are kept if they are newer than everything that they show: the data, their record, and the decisions. A person
    may edit them. What has another content and is no newer than its checksum is damaged, and written again.

    Raises:
        OSError: A file cannot be written.
        RecordError: The run has no scores, or they are damaged.
    """
    run = rank_run(folder)
    place = folder.path / "suspects"
    files = {"csv": CSV_FILE, "html": PAGE_FILE}
    shown = list(_shown(run))
    newer = [name for name in DEFAULT_FORMATS if _is_newer(place / files[name], shown)]
    damaged = [name for name in newer if _is_damaged(place, files[name])]
    for name in damaged:
        warn(f"Note: {place / files[name]} is damaged, and is written again.")
    outdated = [name for name in DEFAULT_FORMATS if name not in newer or name in damaged]
    write_suspects(place, outdated, run, run.suspects(), data=data, root=root, warn=warn)
    known = (place / CHECKSUMS_FILE).exists() and all(is_as_written(place, name) for name in files.values())
    if outdated or not known:
        write_by_rename(place / CHECKSUMS_FILE, to_json({name: sha256_of(place / name) for name in files.values()}))
    return run, place / PAGE_FILE


def _is_damaged(folder: Path, name: str) -> bool:
    return not is_as_written(folder, name) and _is_newer(folder / CHECKSUMS_FILE, [folder / name])


def is_as_written(folder: Path, name: str) -> bool:
    """Return whether a file beside a run has its checksum, or is of an earlier version, which wrote none."""
    try:
        known = load_json(folder / CHECKSUMS_FILE)
        return isinstance(known, dict) and known.get(name) == sha256_of(folder / name)
    except FileNotFoundError:
        return not os.path.lexists(folder / CHECKSUMS_FILE)
    except (OSError, ValueError):
        return False


def _shown(run: RankedRun) -> Iterator[Path]:
    """Yield the files that the list and the page show. The images of a folder are identified by the run itself."""
    folder = run.folder.path
    yield from (folder / name for name in (SAMPLES_FILE, DATA_FILE, DECIDED_FILE))
    yield folder / AUDIT_FOLDER / RESULT_FILE
    if run.about:
        data = Path(run.about["path"])
        yield from [*data.glob("*"), *data.glob("*/*")] if data.is_dir() and is_hugging_face(data) else [data]


def _is_newer(file: Path, sources: Iterable[Path]) -> bool:
    written = file.stat().st_mtime_ns if file.exists() else -1
    return all(source.stat().st_mtime_ns <= written for source in sources if source.is_file()) and written >= 0


def write_csv(path: Path, listed: Iterable[Suspect], formulas: Formulas | None = None) -> Path:
    """Write a table with a row per suspect."""
    return write_rows(path, COLUMNS, ([getattr(each, name) for name in COLUMNS] for each in listed), formulas=formulas)


def write_rows(
    path: Path,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    separator: str = ",",
    encoding: str = "utf-8",
    formulas: Formulas | None = None,
) -> Path:
    """Write a CSV file; None is an empty cell. `formulas` finds those of a file that people open in a spreadsheet."""
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        writer = csv.writer(text, delimiter=separator)
        writer.writerow(header)
        writer.writerows(rows if formulas is None else formulas.passed(rows))
        text.flush()
        text.detach()  # `replacing` closes the file
    return path


def write_parquet(path: Path, listed: Sequence[Suspect]) -> Path:
    """Write the columns of the CSV file with their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types: dict[str, Any] = {"rank": pa.int64(), "index": pa.int64(), "given": pa.int64(), "suggested": pa.int64()}
    types |= {"score": pa.float64(), "confidence": pa.float64()}
    table = pa.table(
        {name: pa.array([getattr(each, name) for each in listed], types.get(name, pa.string())) for name in COLUMNS}
    )
    with replacing(path) as file:
        pq.write_table(table, file)
    return path


def write_label_studio(path: Path, listed: Iterable[Suspect]) -> Path:
    """Write tasks with the suggestion as a prediction, whose score sorts the most suspicious first."""
    with replacing(path) as file:
        file.write(b"[")
        for number, each in enumerate(listed):
            result = {
                "from_name": LABEL_STUDIO_CONTROL,
                "to_name": LABEL_STUDIO_OBJECT,
                "type": "choices",
                "value": {"choices": [each.suggested_name]},
            }
            task = {
                "data": {"image": each.path or each.id, "id": each.id, "given": each.given_name, "why": each.why},
                "predictions": [{"model_version": "tnlpad", "score": each.confidence, "result": [result]}],
            }
            file.write((",\n" if number else "\n").encode() + json.dumps(task, ensure_ascii=False).encode())
        file.write(b"\n]\n")
    return path


def write_for_cleanlab(folder: Path, scores: SampleScores) -> tuple[Path, Path]:
    """Write `labels.npy` and `pred_probs.npy` of all samples for `cleanlab.filter.find_label_issues`.

    The probabilities are those of one training: out-of-sample for held-out samples only.
    """
    labels, probabilities = folder / "labels.npy", folder / "pred_probs.npy"
    with replacing(probabilities) as file:
        write_array(file, scores.probabilities)
    with replacing(labels) as file:
        write_array(file, scores.columns["given"])
    return labels, probabilities
