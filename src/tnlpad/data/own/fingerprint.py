"""One number for all that a run depends on in a person's data; where they lie is not part of it."""

import hashlib
from collections.abc import Sequence

from tnlpad.types import Labels


def fingerprint(
    kind: str,
    ids: Sequence[str],
    labels: Labels,
    class_names: Sequence[str],
    parts: Sequence[str] | None,
    digests: Sequence[bytes],
) -> str:
    """SHA-256 over every text with its length before it, so that no two lists of samples give the same bytes."""
    total = hashlib.sha256()

    def add(text: str) -> None:
        content = text.encode()
        total.update(len(content).to_bytes(8, "big") + content)

    for text in (kind, str(len(class_names)), *class_names):
        add(text)
    for row, name in enumerate(ids):
        add(name)
        add(str(labels[row]))
        add(parts[row] if parts is not None else "")
        total.update(digests[row])
    return total.hexdigest()
