"""Tiny data of several kinds and finished runs on them, as `tnlpad train` takes and leaves them."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("ant", "bee", "cat")
COUNT = 36
EPOCHS = 2
WORDS = {"ant": "small red soil hill", "bee": "honey wing flower sting", "cat": "milk mouse fur sofa"}


def labels() -> list[str]:
    """Return a label for each sample, some of them wrong."""
    right = [CLASSES[each % 3] for each in range(COUNT)]
    return [CLASSES[(CLASSES.index(label) + 1) % 3] if place % 9 == 0 else label for place, label in enumerate(right)]


def numbers(dimensions: int = 4) -> np.ndarray[Any, Any]:
    """Return features of each sample that tell the right classes apart."""
    generator = np.random.default_rng(0)
    centres = np.eye(3, dimensions)[np.arange(COUNT) % 3] * 4
    return (centres + generator.normal(size=(COUNT, dimensions))).astype(np.float32)


def pictures(side: int = 8) -> list[Image.Image]:
    """Return an image of each sample, coloured by its right class."""
    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 120, (COUNT, side, side, 3))
    for place in range(COUNT):
        pixels[place, :, :, place % 3] += 120
    return [Image.fromarray(each) for each in pixels.astype(np.uint8)]


def write_features(folder: Path) -> Path:
    """Write an .npz file."""
    np.savez(folder / "features.npz", features=numbers(), labels=np.array(labels()))
    return folder / "features.npz"


def write_table(folder: Path, name: str = "table.csv") -> Path:
    """Write a CSV table with numbers, categories and gaps."""
    with open(folder / name, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "size", "colour", "label"])
        for place, (row, label) in enumerate(zip(numbers(), labels(), strict=True)):
            size = "" if place % 7 == 0 else f"{row[place % 3]:.3f}"
            writer.writerow([f"s{place}", size, ("red", "green", "blue")[place % 3], label])
    return folder / name


def write_texts(folder: Path) -> Path:
    """Write a CSV table with a column of texts."""
    generator = np.random.default_rng(2)
    with open(folder / "texts.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for place, label in enumerate(labels()):
            writer.writerow([" ".join(generator.choice(WORDS[CLASSES[place % 3]].split(), 6)), label])
    return folder / "texts.csv"


def write_photos(folder: Path) -> Path:
    """Write a folder with a folder of images per class."""
    for place, (picture, label) in enumerate(zip(pictures(), labels(), strict=True)):
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        picture.save(folder / "photos" / label / f"{place}.png")
    return folder / "photos"


WRITERS: Mapping[str, Callable[[Path], Path]] = {
    "features": write_features,
    "table": write_table,
    "texts": write_texts,
    "photos": write_photos,
}


def data_of(folder: Path, kind: str) -> Path:
    """Return the path at which data of a kind are written into a folder."""
    return folder / {"features": "features.npz", "table": "table.csv", "texts": "texts.csv", "photos": "photos"}[kind]


PUBLISHED = ("digits", "--noise", "symmetric:0.2")
TRAINED = (*WRITERS, "digits")
# Durations are part of the records. With clocks that count their own readings, a run has the same bytes every time.
COUNTING_CLOCK = """
import itertools, time
readings = itertools.count(1)
time.perf_counter = time.monotonic = time.time = lambda: 1e9 + next(readings) / 1024
from tnlpad.cli import main
main()
"""


def train(folder: Path, kind: str) -> Path:
    """Train on data of a kind in another process, and return the finished run; all is below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = [str(WRITERS[kind](folder)), "--backbone", "none"] if kind in WRITERS else PUBLISHED
    words = [sys.executable, "-c", COUNTING_CLOCK, "train", *data, "--out", str(folder / "runs"), "--json", "--quiet"]
    words += ["--set", f"epochs={EPOCHS}"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if ended.returncode:
        raise RuntimeError(f"tnlpad {' '.join(words[3:])} failed:\n{ended.stderr}")
    return folder / "runs" / json.loads(ended.stdout)["run_id"]
