"""Noise as text: `symmetric:0.4` on the command line and in configurations, `symmetric-0.4` in cell names.

| text | meaning |
|---|---|
| `symmetric:0.4`, `pairflip:0.4`, `asymmetric:0.4`, `instance:0.4` | simulated, with a noise rate |
| `human:worse` | human annotations, by the name of the label set |
| `matrix:file.npy`, `matrix:file.csv` | any transition matrix, one row per clean class |
| `labels.npz` | an existing label file |
| `none` | the labels as they are |
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard, get_args

import numpy as np

from tnlpad.suggestions import nearest

Kind = Literal["symmetric", "pairflip", "asymmetric", "instance", "human", "matrix", "file", "none"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RATED: tuple[Kind, ...] = ("symmetric", "pairflip", "asymmetric", "instance")
FORM: dict[Kind, str] = {
    **{kind: f"{kind}:RATE" for kind in RATED},
    "human": "human:NAME",
    "matrix": "matrix:FILE",
    "file": "LABELS.npz",
    "none": "none",
}
FORMS = ", ".join(FORM.values())
ARGUMENT: dict[Kind, str] = {**dict.fromkeys(RATED, "noise_rate"), "human": "human", "matrix": "file", "file": "file"}
LABEL_FILE_SUFFIX = ".npz"
MATRIX_SUFFIXES = (".npy", ".csv")


@dataclass(frozen=True, kw_only=True)
class NoiseSpec:
    """A kind of noise and its argument: a rate, the name of a set of human labels, a file, or nothing."""

    kind: Kind
    noise_rate: float | None = None
    human: str | None = None
    file: Path | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: must be one of {', '.join(KINDS)}.")
        needed = ARGUMENT.get(self.kind)
        for field in ("noise_rate", "human", "file"):
            value = getattr(self, field)
            if (value is not None) != (field == needed):
                rule = "requires it" if field == needed else "does not take it"
                raise ValueError(f"{field}={value!r}: {self.kind} noise {rule}. Write one of {FORMS}.")
        if self.noise_rate is not None and not 0 <= self.noise_rate <= 1:  # also catches NaN
            raise ValueError(f"noise_rate={self.noise_rate!r}: must lie in [0, 1]; 40 % is 0.4.")

    def __str__(self) -> str:
        """Return the text that `parse_noise` reads."""
        if self.kind == "file":
            return str(self.file)
        return f"{self.kind}:{self._argument}" if self._argument else self.kind

    @property
    def name(self) -> str:
        """Name in cells and file names, without colon and folder."""
        argument = self.file.stem if self.file else self._argument
        return f"{self.kind}-{argument}" if argument else self.kind

    @property
    def _argument(self) -> str:
        if self.noise_rate is not None:
            return np.format_float_positional(self.noise_rate, trim="-")
        return self.human or (str(self.file) if self.file else "")


def parse_noise(text: str) -> NoiseSpec:
    """Parse text such as `symmetric:0.4`; an error suggests the nearest valid text."""
    kind, colon, argument = text.partition(":")
    if not (colon and _is_kind(kind)) and text.lower().endswith(LABEL_FILE_SUFFIX):
        return NoiseSpec(kind="file", file=Path(text))
    if not _is_kind(kind) or kind == "file":
        raise ValueError(f"noise {text!r}: unknown kind {kind!r}.{_hint(text)} Choose from {FORMS}.")
    needed = ARGUMENT.get(kind)
    if bool(argument) != (needed is not None) or (colon and not argument):
        raise ValueError(f"noise {text!r}: write it as {FORM[kind]}.")
    if needed == "noise_rate":
        try:
            return NoiseSpec(kind=kind, noise_rate=float(argument))
        except ValueError:
            raise ValueError(f"noise {text!r}: the rate must be a number in [0, 1]; 40 % is 0.4.") from None
    if needed == "human":
        return NoiseSpec(kind=kind, human=argument)
    if needed is None:
        return NoiseSpec(kind=kind)
    path = Path(argument)
    if path.suffix.lower() not in MATRIX_SUFFIXES:
        raise ValueError(f"noise {text!r}: the file name must end in {' or '.join(MATRIX_SUFFIXES)}.")
    return NoiseSpec(kind=kind, file=path)


def _is_kind(text: str) -> TypeGuard[Kind]:
    return text in KINDS


def _hint(text: str) -> str:
    """Suggest a correction of a misspelt kind, or of a cell name such as symmetric-0.4."""
    kind, _, argument = text.lower().replace("-", ":", 1).partition(":")
    meant = nearest(kind, [each for each in KINDS if each != "file"])
    if meant is None:
        return ""
    return f" Did you mean {meant}{':' + argument if argument and meant != 'none' else ''}?"
