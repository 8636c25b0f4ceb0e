"""Read mangled inputs: each must be read, or refused with an error of this project, within time and memory."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.children import in_children
from benchmarks.faults.errors import brief, is_ours, traced
from benchmarks.faults.inputs import KINDS
from benchmarks.faults.mangle import mangled, replace

SHARE_REPLACED = 0.2


class Mangled:
    """Attack the readers of all kinds of input, with samples in a folder."""

    kinds = tuple(KINDS)

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.struck: Counter[str] = Counter()

    def batch(self, kind: str) -> int:
        """Return how many attacks are made at once: one child reads them all."""
        return 100

    def attack(self, cases: Sequence[Case]) -> list[Failure]:
        """Read the mangled inputs of cases of one kind, and return how their reader failed."""
        sample = self._sample(cases[0].kind)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            return in_children(cases, lambda case: read_mangled(case, self.seed, sample, Path(folder) / "input"))

    def _sample(self, kind: str) -> Path:
        """Return the folder with the sample of a kind; write it at the first call."""
        place = self.folder / kind / "sample"
        if not place.exists():
            place.mkdir(parents=True)
            KINDS[kind].write(place)
            KINDS[kind].read(place)  # an error here is one of this benchmark
        return place


def read_mangled(case: Case, seed: int, sample: Path, place: Path) -> Failure | None:
    """Copy the sample, mangle one of its files, and read it; return how the reader failed."""
    draw = case.draw(seed)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sample, place)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    file = draw.choice(files)
    if KINDS[case.kind].replaced and draw.random() < SHARE_REPLACED:
        replace(file, draw.choice(files), draw)
    else:
        file.write_bytes(mangled(file.name, file.read_bytes(), draw))
    try:
        KINDS[case.kind].read(place)
    except Exception as error:
        if not is_ours(error):
            return Failure(case=case, kind=brief(error), detail=f"{file.relative_to(place)}\n{traced(error)}")
    return None
