"""Memory and answer times of `tnlpad review` with many samples: image files, and texts with further columns.

A made-up run is written to a temporary folder, and the command is started on it as a user would. The table shows when
the first answers come, counted from the start of the command, how long later ones take, and the memory of the process
after each and at its highest.

    python -m benchmarks.review_server [--samples 200000] [--save record.json]
"""

import argparse
import csv
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.machine import leave, machine, versions
from tnlpad.data.own import open_dataset
from tnlpad.records.samples import write_samples
from tnlpad.records.scores import SampleScores, write_scores

CLASSES = 20
WORDS_PER_TEXT = 20
DECISIONS = 500  # one after the other
KINDS = ("files", "text")


def write_run(folder: Path, kind: str, samples: int) -> None:
    """Write a run folder with made-up scores, and its table of texts if it has one."""
    generator = np.random.default_rng(0)
    truth = generator.integers(CLASSES, size=samples)
    wrong = generator.random(samples) < 0.1
    given = np.where(wrong, generator.integers(CLASSES, size=samples), truth)
    logits = generator.normal(size=(samples, CLASSES)).astype(np.float32)
    logits[np.arange(samples), truth] += 5
    odds = np.exp(logits)
    names = tuple(f"class {label:02d}" for label in range(CLASSES))
    parts = np.where(generator.random(samples) < 0.1, "validation", "train")
    columns = {"index": np.arange(samples), "part": parts, "given": given, "agreed_w": np.ones(samples)}
    facts = {"run_id": folder.name, "epochs_until_chosen": 10, "chosen_epoch": 10}
    folder.mkdir(parents=True)
    config = {"dataset": "made-up", "noise": "none", "method": "standard", "network": "mlp"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "summary.json").write_text(json.dumps({"run_id": folder.name, "chosen": {"validation_accuracy": 0.9}}))
    probabilities = odds / odds.sum(1, keepdims=True)
    write_scores(
        folder,
        SampleScores(columns=columns, probabilities=probabilities, class_names=names, views=("w",), facts=facts),
    )
    about = {"kind": kind, "images": None, "label_column": None, "class_names": list(names), "fingerprint": ""}
    about["normalisation"] = {"mean": [0.0], "std": [1.0]}
    data = folder.parent / "photos"
    ids = [f"{names[label]}/{row:08d}.jpg" for row, label in enumerate(given)]
    paths: list[str | None] = [str(data / name) for name in ids]
    if kind == "text":
        data, ids, paths = folder.parent / "texts.csv", [str(row) for row in range(samples)], [None] * samples
        write_texts(data, truth, [names[label] for label in given], generator)
        about |= {"text_column": "text", "fingerprint": open_dataset(data).shape.fingerprint}
    else:
        data.mkdir()
    write_samples(
        folder,
        {"id": ids, "path": paths, "label": given.tolist()}
        | {"label_name": [names[label] for label in given], "part": parts.tolist()},
        {"path": str(data), "ignored": [], "columns": [], "categories": None, **about},
    )


def write_texts(path: Path, truth: np.ndarray, labels: list[str], generator: np.random.Generator) -> None:
    """Write a table of texts, of whose words some go with the class."""
    words = np.array([f"word{number}" for number in range(5000)])
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "author", "day", "label"])
        for row, (label, name) in enumerate(zip(truth.tolist(), labels, strict=True)):
            picked = generator.integers(len(words), size=WORDS_PER_TEXT)
            picked[:3] = 3 * label + np.arange(3)
            writer.writerow([" ".join(words[picked]), f"author {row % 997}", f"2024-01-{row % 28 + 1:02d}", name])


def measure(folder: Path) -> dict[str, dict[str, float]]:
    """Start the command, make the requests of a page, and return seconds and megabytes of each."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tnlpad", "review", str(folder), "--no-browser", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    assert address.hostname is not None, "the server has started"
    connection = http.client.HTTPConnection(address.hostname, address.port)
    rows: dict[str, dict[str, float]] = {}

    def noted(name: str, since: float, function: Callable[[], object]) -> None:
        function()
        rows[name] = {"seconds": time.perf_counter() - since, "megabytes": memory(process.pid, "VmRSS")}

    def get(path: str) -> bytes:
        connection.request("GET", address.path + path)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def decide() -> None:
        for number in range(DECISIONS):
            entry = {"at": number, "choice": "given", "label": None, "key": str(number)}
            body = json.dumps({"decisions": [entry]})
            connection.request("POST", address.path + "decide", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read()

    try:
        noted("address printed", begun, lambda: None)
        noted("first columns, since the start", begun, lambda: get("columns"))
        noted("about, since the start", begun, lambda: get("about"))
        for name, path in {
            "first 50 samples": "samples?at=" + ",".join(map(str, range(50))),
            "next 50 samples": "samples?at=" + ",".join(map(str, range(50, 100))),
            "first search": "search?q=word17",
            "next search": "search?q=class%2007",
            "first map": "map?kind=pca",
            "columns again": "columns",
            "all decisions": "decisions?since=0",
        }.items():
            noted(name, time.perf_counter(), lambda path=path: get(path))  # type: ignore[misc]
        noted(f"{DECISIONS} decisions", time.perf_counter(), decide)
        rows["highest"] = {"seconds": time.perf_counter() - begun, "megabytes": memory(process.pid, "VmHWM")}
    finally:
        process.terminate()
        process.wait()
    return rows


def memory(process: int, field: str) -> float:
    """Return a field of the system's status of a process, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:")) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    found = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            write_run(Path(folder) / "runs" / kind, kind, arguments.samples)
            found[kind] = measure(Path(folder) / "runs" / kind)
        print(f"{kind}, {arguments.samples:,} samples")
        for name, row in found[kind].items():
            print(f"  {name:32} {row['seconds']:8.3f} s {row['megabytes']:8.0f} MB")
    leave(
        {"machine": machine("cpu"), "versions": versions(), "samples": arguments.samples, "rows": found}, arguments.save
    )


if __name__ == "__main__":
    main()
