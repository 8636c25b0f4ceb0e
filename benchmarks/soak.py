"""Attack the program for a while and count broken promises.

    python -m benchmarks.soak [--minutes 5] [--seed 1] [--only PART[:KIND]] [--workers 2] [--save record.json]
    python -m benchmarks.soak --seed 1 --repeat PART:KIND:NUMBER

Parts: `mangled` reads damaged inputs of every kind; `flips` flips bits in finished runs. Every attack has a name, and
the seed and the name determine what is random in it. `--repeat` runs one of them again.
"""

import argparse
import importlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.faults.samples import SINGLE_THREADED

os.environ.update(SINGLE_THREADED)  # before NumPy is imported

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.flips import Flips
from benchmarks.faults.mangled import Mangled

PRELOADED = (
    "openpyxl",
    "pyarrow.parquet",
    "sklearn.neighbors",
    "tnlpad.cli",
    "tnlpad.cli.check",
    "tnlpad.fitting",
    "tnlpad.review.decisions",
    "tnlpad.suspects.page",
    "tnlpad.suspects.prediction_files",
    "tnlpad.training.checkpoint",
)


class Part(Protocol):
    """A part of the soak: kinds of attack, which are run a batch at a time."""

    kinds: Sequence[str]
    batch: int

    def attack(self, cases: Sequence[Case]) -> list[Failure]: ...


def parts(folder: Path, seed: int) -> dict[str, Part]:
    """Return all parts by name."""
    return {"mangled": Mangled(folder / "mangled", seed), "flips": Flips(folder / "flips", seed)}


class Tally:
    """Counts of attacks, and their failures by kind."""

    def __init__(self) -> None:
        self.attacks: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.seconds: dict[str, float] = defaultdict(float)
        self.failures: dict[str, list[Failure]] = defaultdict(list)

    def add(self, cases: Sequence[Case], failures: Sequence[Failure], seconds: float) -> None:
        """Count the attacks of one batch."""
        first = cases[0]
        self.attacks[first.part][first.kind] += len(cases)
        self.seconds[f"{first.part}:{first.kind}"] += seconds
        for failure in failures:
            self.failures[failure.kind].append(failure)


def soak(chosen: dict[str, Part], kinds: dict[str, Sequence[str]], minutes: float, tally: Tally) -> None:
    """Attack all kinds in turn until the time is over."""
    end = time.monotonic() + 60 * minutes
    next_number: dict[tuple[str, str], int] = defaultdict(int)
    spent = dict.fromkeys(chosen, 0.0)
    turn: dict[str, int] = defaultdict(int)
    while time.monotonic() < end:
        name = min(spent, key=lambda each: spent[each])
        part, kind = chosen[name], kinds[name][turn[name] % len(kinds[name])]
        turn[name] += 1
        start = next_number[name, kind]
        next_number[name, kind] += part.batch
        cases = [Case(part=name, kind=kind, number=start + place) for place in range(part.batch)]
        begin = time.monotonic()
        failures = part.attack(cases)
        seconds = time.monotonic() - begin
        spent[name] += seconds
        tally.add(cases, failures, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--repeat")
    a = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    Image.init()
    folder = Path(tempfile.gettempdir()) / f"tnlpad-soak-{a.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["TNLPAD_CACHE"] = str(folder / "cache")
    every = parts(folder, a.seed)
    if a.repeat:
        case = Case.named(a.repeat)
        for x in every[case.part].attack([case]):
            print(x.kind, x.detail, sep="\n")
        return
    chosen = every
    kinds = {name: part.kinds for name, part in every.items()}
    if a.only:
        p, _, k = a.only.partition(":")
        chosen = {p: every[p]}
        if k:
            kinds[p] = [k]
    tally = Tally()
    soak(chosen, kinds, a.minutes, tally)
    for part, counts in tally.attacks.items():
        for kind, n in counts.items():
            print(f"{part:10} {kind:22} {n:6} {1000 * tally.seconds[part + ':' + kind] / n:8.1f} ms")
    for kind, xs in sorted(tally.failures.items(), key=lambda x: -len(x[1])):
        print(f"== {len(xs)} x {kind}: {xs[0].case}")
        print(xs[0].detail)


if __name__ == "__main__":
    main()
