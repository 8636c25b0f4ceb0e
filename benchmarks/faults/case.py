"""One attack of the soak: its name, its random stream, and how it failed."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, order=True)
class Case:
    """One attack. Its name and the seed determine everything that is random in it.

    Args:
        part: The part of the soak, such as "mangled".
        kind: What is attacked.
        number: Counts the attacks of this kind.
    """

    part: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.part}:{self.kind}:{self.number}"

    @classmethod
    def named(cls, text: str) -> "Case":
        """Return the case of a name; raise ValueError if it is none."""
        part, kind, number = text.split(":")
        return cls(part=part, kind=kind, number=int(number))

    def draw(self, seed: int) -> random.Random:
        """Return the random stream of this case."""
        return random.Random(f"{seed}:{self}")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A broken promise.

    Args:
        case: The attack.
        kind: Few words that equal failures share, such as the exception and the line that raised it.
        detail: More about this one.
    """

    case: Case
    kind: str
    detail: str
