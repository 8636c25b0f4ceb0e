"""Attack the program for a while, and count broken promises.

    python -m benchmarks.soak [--minutes 5] [--seed 1] [--only PART[:KIND]] [--workers 2] [--save record.json]
    python -m benchmarks.soak --seed 1 --repeat PART:KIND:NUMBER

Parts:

    mangled     read damaged inputs of every kind: read or refused, within limits of time and memory
    flips       flip a bit in a finished run: every output is unchanged or refused
    operations  kill, terminate or interrupt a command at every file operation
    disks       let the disk be full from one file operation on
    moments     kill, terminate or interrupt a command at any time, up to three times in a row

After the last three, the same command must finish with the same result and leave nothing behind. Every attack has a
name. The seed and the name determine it, except for `moments`, where the machine decides what the time meets. The exit
code is 1 if a promise was broken. Works on Linux.
"""

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.flips import Flips
from benchmarks.faults.kills import WAYS
from benchmarks.faults.mangled import Mangled
from benchmarks.machine import leave, machine, versions

# Shares of the time, so that an hour in two processes makes more than 100,000 mangled inputs, 500 flips and 1,000
# SIGKILLs: a mangled input takes about 10 ms, a flip 2 s, and a kill with the run that follows 1 to 2 s.
SHARES = {"mangled": 0.26, "flips": 0.2, "operations": 0.3, "disks": 0.05, "moments": 0.19}
PARTS: dict[str, "Callable[[Path, int], Part]"] = {"mangled": Mangled, "flips": Flips, **WAYS}
FORKED_SAFELY = ("jemalloc_bg_thd",)  # of pyarrow's allocator, which starts it again after a fork
EXAMPLES = 3  # of each kind of failure, in the record
# Imported before any process is forked.
PRELOADED = (
    "openpyxl",
    "pyarrow.parquet",
    "sklearn.neighbors",
    "tnlpad.cli.check",
    "tnlpad.fitting",
    "tnlpad.records.archive",
    "tnlpad.review.decisions",
    "tnlpad.suspects.cleaned_files",
    "tnlpad.suspects.page",
    "tnlpad.suspects.prediction_files",
    "tnlpad.training.checkpoint",
)


class Part(Protocol):
    """A part of the soak: kinds of attack, made a batch at a time."""

    kinds: Sequence[str]
    struck: Counter[str]  # processes that a signal ended, by its name

    def batch(self, kind: str) -> int: ...

    def attack(self, cases: Sequence[Case]) -> list[Failure]: ...


def preload() -> None:
    """Import what attacks need, without starting a thread: only then is it safe to fork."""
    for name in PRELOADED:
        importlib.import_module(name)
    import torch
    from PIL import Image
    from typer.testing import CliRunner

    from tnlpad.cli import app

    with (
        tempfile.TemporaryDirectory() as folder
    ):  # a verb without effect, since typer imports some modules at the first
        CliRunner().invoke(app, ["runs", folder])
    torch.set_num_threads(1)
    Image.init()
    threads = [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]
    others = [name for name in threads[1:] if name not in FORKED_SAFELY]
    if others:
        print(f"Note: imports have started the threads {', '.join(others)}.", file=sys.stderr)


def soak(folder: Path, options: argparse.Namespace, worker: int, results: Path) -> None:
    """Attack until the time is over; write a line of JSON for every batch. Workers take turns with the numbers."""
    only, _, only_kind = (options.only or "").partition(":")
    chosen = {name: make(folder / name, options.seed) for name, make in PARTS.items() if not only or name == only}
    kinds = {name: [only_kind] if only_kind else list(part.kinds) for name, part in chosen.items()}
    spent, turns = dict.fromkeys(chosen, 0.0), dict.fromkeys(chosen, 0)
    end = time.monotonic() + 60 * options.minutes
    with results.open("w") as lines:
        while time.monotonic() < end:
            name = min(chosen, key=lambda each: spent[each] / SHARES[each])
            turn, place = divmod(turns[name], len(kinds[name]))
            turns[name] += 1
            kind, begin = kinds[name][place], time.monotonic()
            size, batch = chosen[name].batch(kind), turn * options.workers + worker
            cases = [Case(part=name, kind=kind, number=batch * size + number) for number in range(size)]
            failures = chosen[name].attack(cases)
            seconds = time.monotonic() - begin
            spent[name] += seconds
            line = {"part": name, "kind": kind, "attacks": len(cases), "seconds": seconds}
            line["struck"] = dict(chosen[name].struck)
            chosen[name].struck.clear()
            lines.write(json.dumps(line | {"failures": [asdict(each) for each in failures]}) + "\n")
            lines.flush()
            for each in failures:
                print(f"{each.kind}\n    {repeat_command(each.case, options.seed)}", flush=True)


def repeat_command(case: Case, seed: int) -> str:
    """Return the command that makes one attack again."""
    return f'python -m benchmarks.soak --seed {seed} --repeat "{case}"'


def tally(files: Sequence[Path], seed: int) -> dict[str, Any]:
    """Add up the lines of all workers: attacks by part and kind, and failures by what went wrong."""
    attacks: dict[str, dict[str, int]] = {name: {} for name in PARTS}
    seconds: dict[str, float] = defaultdict(float)
    struck: Counter[str] = Counter()
    failures: dict[str, dict[str, Any]] = {}
    for line in (json.loads(text) for file in files for text in file.read_text().splitlines()):
        kinds = attacks[line["part"]]
        kinds[line["kind"]] = kinds.get(line["kind"], 0) + line["attacks"]
        seconds[line["part"]] += line["seconds"]
        struck.update(line["struck"])
        for failure in line["failures"]:
            entry = failures.setdefault(failure["kind"], {"part": line["part"], "count": 0, "examples": []})
            entry["count"] += 1
            if len(entry["examples"]) < EXAMPLES:
                command = repeat_command(Case(**failure["case"]), seed)
                entry["examples"].append({"repeat": command, "detail": failure["detail"]})
    return {
        "attacks": {name: kinds for name, kinds in attacks.items() if kinds},
        "kills": dict(sorted(struck.items())),
        "seconds": {name: round(spent) for name, spent in seconds.items()},
        "failures": failures,
    }


def show(record: dict[str, Any]) -> None:
    """Print counts, and every kind of failure with the command that repeats one."""
    print(f"{sum(record['kills'].values()):,} processes ended by a signal: {record['kills']}")
    for part, kinds in record["attacks"].items():
        failed = sum(each["count"] for each in record["failures"].values() if each["part"] == part)
        count = sum(kinds.values())
        pace = 1000 * record["seconds"][part] / count
        print(f"{part}: {count:,} attacks of {len(kinds)} kinds, {failed:,} failures ({pace:.0f} ms each)")
    for kind, entry in sorted(record["failures"].items(), key=lambda item: -item[1]["count"]):
        example = entry["examples"][0]
        print(f"\n{entry['count']:,} × {kind}\n    {example['repeat']}\n{example['detail'].rstrip()}")


@contextmanager
def workplace(seed: int) -> Iterator[Path]:
    """Create the folder to work in. Its name is part of records, so a seed always has the same."""
    from filelock import FileLock, Timeout

    folder = Path(tempfile.gettempdir()) / f"tnlpad-soak-{seed}"
    try:
        with FileLock(f"{folder}.lock").acquire(timeout=0):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.environ["TNLPAD_CACHE"] = str(folder / "cache")
            yield folder
            shutil.rmtree(folder, ignore_errors=True)
    except Timeout:
        sys.exit(f"Another soak works in {folder}. Wait for it, or give another --seed.")


def in_workers(folder: Path, options: argparse.Namespace) -> list[Path]:
    """Attack in several processes; return the files with their results."""
    files = [folder / f"results-{worker}.jsonl" for worker in range(options.workers)]
    children = []
    for worker, file in enumerate(files):
        children.append(os.fork())
        if not children[-1]:
            code = 1
            try:
                soak(folder / str(worker), options, worker, file)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit("A worker of the soak itself has failed; see above.")
    return files


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="PART[:KIND]")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeat", metavar="PART:KIND:NUMBER")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if options.only and options.only.partition(":")[0] not in PARTS:
        parser.error(f"--only {options.only}: parts are {', '.join(PARTS)}")
    return options


def main() -> None:
    options = arguments()
    preload()
    with workplace(options.seed) as folder:
        if options.repeat:
            case = Case.named(options.repeat)
            failures = PARTS[case.part](folder / "0" / case.part, options.seed).attack([case])
            print("\n".join(f"{each.kind}\n{each.detail}" for each in failures) or "No promise was broken.")
            sys.exit(bool(failures))
        counted = tally(in_workers(folder, options), options.seed)
    facts = {"machine": machine("cpu"), "versions": versions(), "seed": options.seed, "workers": options.workers}
    record = facts | {"minutes": options.minutes, **counted}
    show(record)
    leave(record, options.save)
    sys.exit(bool(record["failures"]))


if __name__ == "__main__":
    main()
