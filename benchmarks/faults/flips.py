"""Flip a bit in a finished run: every output must be as before, or be refused with an error of this project."""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.faults import samples
from benchmarks.faults.case import Case, Failure
from benchmarks.faults.children import in_children
from benchmarks.faults.errors import brief, is_ours, traced

AUDITED = "audited"  # a run on features, with the result of an audit
DECIDED = 20  # labels of the audit
NO_ARTEFACTS = ("suspects", "lock")  # written again whenever they are wanted
REFUSED = "refused"

Outputs = dict[str, str]


class Foreign(Exception):
    """An output failed with an error that the project does not promise."""


class Flips:
    """Attack finished runs of several kinds, in a folder."""

    kinds = (*samples.TRAINED, AUDITED)

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.struck: Counter[str] = Counter()
        self.runs: dict[str, Path] = {}
        self.expected: dict[str, Outputs] = {}

    def batch(self, kind: str) -> int:
        """Return how many attacks are made at once."""
        return 4

    def attack(self, cases: Sequence[Case]) -> list[Failure]:
        """Flip a bit for each case of one kind of run, and return which outputs changed or failed."""
        kind = cases[0].kind
        if kind not in self.expected:
            self.runs[kind] = trained(self.folder / kind, kind)
            self.expected[kind] = self._undisturbed(kind)
        # Each in a process of its own, which has not seen the undamaged file.
        return [failure for case in cases for failure in in_children([case], self._flip)]

    def _undisturbed(self, kind: str) -> Outputs:
        """Return the outputs of a run as it is, asked for in a child: what they load starts threads."""
        file = self.folder / kind / "expected.json"

        def ask(_: Case) -> None:
            file.write_text(json.dumps(outputs(self.runs[kind])))

        if failures := in_children([Case(part="flips", kind=kind, number=-1)], ask):
            raise RuntimeError(f"a run on {kind} has no outputs: {failures}")
        expected: Outputs = json.loads(file.read_text())
        if REFUSED in expected.values():
            raise RuntimeError(f"a run on {kind} is refused: {expected}")
        return expected

    def _flip(self, case: Case) -> Failure | None:
        run, draw = self.runs[case.kind], case.draw(self.seed)
        files = sorted(each for each in run.rglob("*") if each.is_file() and not is_output(each.relative_to(run)))
        file = draw.choice(files)
        content = file.read_bytes()
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        times = file.stat().st_atime_ns, file.stat().st_mtime_ns
        try:
            file.write_bytes(damaged)
            os.utime(file, ns=times)  # a disk that fails does not change the time
            found = outputs(run, file.name)
        except Foreign as error:
            return Failure(case=case, kind=f"{file.name}: {error.args[0]}", detail=error.args[1])
        finally:
            file.write_bytes(content)
            os.utime(file, ns=times)
        changed = [name for name, value in found.items() if value not in (REFUSED, self.expected[case.kind][name])]
        if not changed:
            return None
        around = bytes(damaged[max(0, place - 30) : place + 30])
        name = file.relative_to(run)
        detail = f"byte {place}, bit {bit}: {around!r}"
        return Failure(case=case, kind=f"{name}: changes {', '.join(changed)} unnoticed", detail=detail)


def trained(folder: Path, kind: str) -> Path:
    """Train on data of a kind, and return the finished run; all is below the folder."""
    run = samples.train(folder, data_kind(kind))
    if kind == AUDITED:
        audit(run, folder / "audit")
    return run


def audit(run: Path, folder: Path) -> None:
    """Put the result of an audit into a run. Its decisions name a class that the data lack."""
    words = [sys.executable, "-m", "tnlpad", "audit", str(run), "--out", str(folder), "--quiet"]
    subprocess.run([*words, "--sample", str(DECIDED)], check=True, capture_output=True, timeout=300)
    with open(folder / "audit.csv", newline="") as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    with open(folder / "decisions.csv", "w", newline="") as file:
        labels = [*samples.CLASSES, "yes"]
        csv.writer(file).writerows([("id", "label"), *((name, labels[n % 4]) for n, name in enumerate(ids))])
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    (run / "audit").mkdir()
    shutil.copy(folder / "result.json", run / "audit")


def data_kind(kind: str) -> str:
    """Return the kind of the data of a kind of run."""
    return "features" if kind == AUDITED else kind


def is_output(path: Path) -> bool:
    """Return whether a file of a run folder is not read by any command."""
    return path.parts[0] in NO_ARTEFACTS


def outputs(run: Path, damaged: str = "") -> Outputs:
    """Return a digest of everything that a finished run is asked for, or that it was refused.

    Args:
        run: The run folder.
        damaged: The name of a damaged file. An output with a message that names it counts as refused: a report, for
            example, leaves out damaged runs and says so.
    """
    out = run.parents[1] / "out"
    found: Outputs = {}
    for name, words in commands(run, out).items():
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        found[name] = command_output(words, out, damaged)
    if name_of_data(run):
        found["load"] = loaded(run)
    return found


def commands(run: Path, out: Path) -> dict[str, list[str]]:
    """Return the commands that read a run, by their names."""
    data = name_of_data(run)
    listed = {"runs": ["runs", str(run.parent), "--json"]}
    if not data:
        return listed | {"report": ["report", str(run.parent), "--out", str(out / "report")]}
    return listed | {
        "suspects": ["suspects", str(run), "--out", str(out / "list"), "--format", "csv,html"],
        "clean": ["clean", str(run), "--out", str(out / f"cleaned{Path(data).suffix}"), "--top", "3"],
        "predict": ["predict", str(run), data, "--out", str(out / "predictions.csv")],
    }


def name_of_data(run: Path) -> str:
    """Return the path of the data that a run was trained on; empty if they are published."""
    kind = data_kind(run.parents[1].name)
    return str(samples.data_of(run.parents[1], kind)) if kind in samples.WRITERS else ""


def command_output(words: Sequence[str], out: Path, damaged: str) -> str:
    """Return a digest of what a command prints and writes; raise `Foreign` if it fails unexpectedly."""
    from typer.testing import CliRunner

    from tnlpad.cli import app

    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Foreign(brief(result.exception), traced(result.exception))
    if result.exit_code:
        if "Error: " not in result.stderr:
            raise Foreign(f"{words[0]} exits with {result.exit_code} and no message", result.output)
        return REFUSED
    said = result.stderr + (result.stdout if words[0] == "runs" else "")  # which lists the problems of runs
    if damaged and damaged in said:
        return REFUSED
    return digest([result.stdout.encode(), *contents(out)])


def contents(folder: Path) -> Iterator[bytes]:
    """Yield the names and contents of all files below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)).encode()
            yield path.read_bytes()


def loaded(run: Path) -> str:
    """Return a digest of what `tnlpad.load` offers."""
    import tnlpad

    try:
        result = tnlpad.load(run)
        ranked = repr((result.ranked(), result.noise_rate, result.noise_rate_interval, result.caution))
        weights = [value.numpy().tobytes() for value in result.model.state_dict().values()]
    except Exception as error:
        if not is_ours(error):
            raise Foreign(f"load: {brief(error)}", traced(error)) from error
        return REFUSED
    return digest([ranked.encode(), repr(list(result.classes)).encode(), *weights])


def digest(parts: Sequence[bytes]) -> str:
    """Return a hash of several pieces."""
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
