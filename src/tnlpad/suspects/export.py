"""The list in the formats of other tools: CSV, Parquet, Label Studio's JSON, and arrays for cleanlab.

Every file is written by rename, and long ones a few rows at a time.

What a run says of its labels, as files and in a sentence: for `tnlpad suspects`, and where `tnlpad train` ends.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.atomic_files import replacing
from tnlpad.records.scores import SampleScores, write_array
from tnlpad.suspects import DEFAULT_FORMATS
from tnlpad.suspects.listing import Suspect
from tnlpad.suspects.pictures import numbers_of, pictures_of

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.listing import JudgedSamples

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


FILES = {"csv": "suspects.csv", "html": "index.html"}  # of those that are written by default


def verdict(found: "JudgedSamples") -> str:
    """How many labels are suspect, and how many are probably wrong in all; or why not to believe it."""
    if found.caution is not None:
        return f"Caution: {found.caution}"
    ranking = found.ranking
    rate, (low, high) = ranking.estimate.noise_rate, ranking.estimate.noise_rate_interval
    return (
        f"{ranking.suspects:,} of {len(ranking.order):,} labels are more likely wrong than right.\n"
        f"Estimated share of wrong labels: {100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)."
    )


def write_beside_run(
    folder: "RunFolder", own: "OwnDataset | None", root: Path | None, warn: Callable[[str], None]
) -> "tuple[JudgedSamples, Path]":
    """Write the list of a finished run and its page into the run's folder; files that exist are left as they are.

    Raises:
        OSError: It cannot be written.
        RecordError: The run has no scores, or they are damaged.
    """
    from tnlpad.suspects.listing import judged

    found = judged(folder)
    place = folder.path / "suspects"
    missing = [name for name in DEFAULT_FORMATS if not (place / FILES[name]).exists()]
    write_suspects(place, missing, found, found.suspects(), own=own, root=root, warn=warn)
    return found, place / FILES["html"]


def write_suspects(
    folder: Path,
    formats: Sequence[str],
    found: "JudgedSamples",
    listed: "Sequence[Suspect]",
    *,
    own: "OwnDataset | None",
    root: Path | None,
    warn: Callable[[str], None],
) -> list[Path]:
    """The list in each of the formats, and where each was written.

    Args:
        folder: Made if need be.
        formats: Of `FORMATS`.
        found: The run.
        listed: Its suspects.
        own: The person's own data, where they are open already.
        root: Where published datasets lie.
        warn: Called with a sentence about pictures that are missing.
    """
    from tnlpad.atomic_files import write_by_rename
    from tnlpad.suspects.page import suspects_page

    def page() -> list[Path]:
        path = folder / FILES["html"]
        text = suspects_page(
            _title(found),
            listed,
            found.ranking,
            found.scores.class_names,
            pictures_of(found, own, root, warn),
            _facts(found),
            found.caution,
            numbers_of(found, own, warn),
        )
        write_by_rename(path, text.encode())
        return [path]

    writers: dict[str, Callable[[], Sequence[Path]]] = {
        "csv": lambda: [write_csv(folder / FILES["csv"], listed)],
        "parquet": lambda: [write_parquet(folder / "suspects.parquet", listed)],
        "label-studio": lambda: [write_label_studio(folder / "label-studio.json", listed)],
        "cleanlab": lambda: write_for_cleanlab(folder, found.scores),
        "html": page,
    }
    folder.mkdir(exist_ok=True)
    return [path for name in formats for path in writers[name]()]


def _title(found: "JudgedSamples") -> str:
    """The name of the data as a person knows it."""
    from tnlpad.records.scores import read_data_file

    config, about = found.folder.config(), read_data_file(found.folder.path)
    name = Path(about["path"]).name if about is not None else str(config["dataset"])
    noise = config.get("noise")
    return name + (f", noise {noise}" if noise not in (None, "none") else "")


def _facts(found: "JudgedSamples") -> dict[str, Any]:
    facts, config = found.scores.facts, found.folder.config()
    return {
        "run": facts["run_id"],
        "method": f"{config['method']}, {config['network']}",
        "epochs": f"probabilities are means over {facts['epochs_until_chosen']} epochs, the last of them epoch "
        f"{facts['chosen_epoch']}, chosen on {config.get('validation', 'noisy')} validation",
        "order": "by how much more probable another label is, made comparable between samples trained on and held out",
    }
