"""The list in the formats of other tools: CSV, Parquet, Label Studio's JSON, and arrays for cleanlab.

Every file is written by rename, and long ones a few rows at a time.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tnlpad.records.scores import SampleScores, write_array
from tnlpad.records.store import replacing
from tnlpad.suspects.listing import Suspect

COLUMNS = tuple(field.name for field in fields(Suspect))
# What Label Studio's own template for image classification calls its control and its image.
LABEL_STUDIO_CONTROL, LABEL_STUDIO_OBJECT = "choice", "image"


def write_csv(path: Path, listed: Iterable[Suspect]) -> Path:
    """A row per suspect under a header."""
    return write_rows(path, COLUMNS, ([getattr(each, name) for name in COLUMNS] for each in listed))


def write_rows(
    path: Path,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    separator: str = ",",
    encoding: str = "utf-8",
) -> Path:
    """A CSV file; None is an empty cell."""
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        writer = csv.writer(text, delimiter=separator)
        writer.writerow(header)
        writer.writerows(rows)
        text.flush()
        text.detach()  # the file is closed by whoever opened it
    return path


def write_parquet(path: Path, listed: Sequence[Suspect]) -> Path:
    """The same table with types."""
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
    """Tasks with the suggestion as a prediction, scored so that review can begin with the most suspicious."""
    with replacing(path) as file:
        file.write(b"[")
        for number, text in enumerate(_tasks(listed)):
            file.write((",\n" if number else "\n").encode() + text.encode())
        file.write(b"\n]\n")
    return path


def _tasks(listed: Iterable[Suspect]) -> Iterator[str]:
    for each in listed:
        data = {"image": each.path or each.id, "id": each.id, "given": each.given_name, "why": each.why}
        result = {
            "from_name": LABEL_STUDIO_CONTROL,
            "to_name": LABEL_STUDIO_OBJECT,
            "type": "choices",
            "value": {"choices": [each.suggested_name]},
        }
        prediction = {"model_version": "tnlpad", "score": each.confidence, "result": [result]}
        yield json.dumps({"data": data, "predictions": [prediction]}, ensure_ascii=False)


def write_for_cleanlab(folder: Path, scores: SampleScores) -> tuple[Path, Path]:
    """`labels.npy` and `pred_probs.npy` of all samples, as `cleanlab.filter.find_label_issues` takes them.

    The probabilities are those of one training: out-of-sample for held-out samples only.
    """
    labels, probabilities = folder / "labels.npy", folder / "pred_probs.npy"
    with replacing(probabilities) as file:
        write_array(file, scores.probabilities)
    with replacing(labels) as file:
        write_array(file, scores.columns["given"])
    return labels, probabilities
