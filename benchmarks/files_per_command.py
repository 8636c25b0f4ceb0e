"""Count the source files that a reader opens to follow a command: those in which a function runs once imports are done.

    python -m benchmarks.files_per_command           # a training step, train digits, train FOLDER, suspects RUN
    python -m benchmarks.files_per_command --list    # with the names of the files

Each command runs in this process under `sys.setprofile`. Functions that run while a module is being imported, such as
decorators, do not count.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from PIL import Image
from sklearn.datasets import load_digits

import tnlpad
from tnlpad.cli import app
from tnlpad.methods import METHODS, Setup
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.types import Batch, Clock

SOURCE = str(Path(tnlpad.__file__).parent) + os.sep


def files_of(action: Callable[[], Any]) -> list[str]:
    """Files of this package in which a function runs during `action`, but not while something is imported."""
    found: set[str] = set()
    known: set[CodeType] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(SOURCE) and code.co_filename.endswith(".py")
        if event != "call" or code in known or not ours:
            return
        if not _importing(frame):
            known.add(code)
            found.add(code.co_filename.removeprefix(SOURCE))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(found)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCE):
            return True
        frame = frame.f_back
    return False


def command(*words: str) -> list[str]:
    """The files of one `tnlpad` command; its output is dropped, its failure is not."""

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                app(list(words), standalone_mode=False)
            except SystemExit as end:
                if end.code not in (0, None):
                    raise RuntimeError(errors.getvalue()) from end

    return files_of(run)


def one_step() -> list[str]:
    """The files of one TNLPAD step, the second one of an epoch."""
    setup = Setup(
        network=lambda _: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
        sgd={"lr": 0.01, "momentum": 0.9},
        labels=torch.zeros(4, dtype=torch.int64),
        num_classes=10,
        epochs=1,
        noise_rate=None,
        generator=torch.Generator(),
    )
    method = METHODS["tnlpad"].build(TnlpadConfig(), setup)
    clock = Clock(epoch=1, epochs=1)
    batch = Batch(index=torch.arange(4), images=torch.rand(4, 1, 8, 8), labels=setup.labels)
    method.begin_epoch(clock)
    method.step(batch, clock)
    return files_of(lambda: method.step(batch, clock))


def write_folder(folder: Path) -> Path:
    """Digits as image files, a folder for each class."""
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images[:200], digits.target, strict=False)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype("uint8")).save(place / f"{number}.png")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        photos = write_folder(Path("photos"))
        found = {
            "a TNLPAD step": one_step(),
            "train digits": command("train", "digits", "--set", "epochs=1", "--set", "milestones=1"),
            "train FOLDER": command("train", str(photos), "--set", "epochs=2", "--set", "milestones=1"),
        }
        found["suspects RUN"] = command("suspects", "latest")
        found["suspects RUN --out FOLDER"] = command("suspects", "latest", "--out", "list")
    for name, files in found.items():
        print(f"{name}: {len(files)}")
        if listed:
            print("  " + "\n  ".join(files))
    print(json.dumps({name: len(files) for name, files in found.items()}))


if __name__ == "__main__":
    main()
