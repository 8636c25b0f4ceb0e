"""The number of this process and of those started with it, as a launcher such as torchrun sets them. Without torch."""

import os

TIMEOUT_SECONDS = 600.0  # without an answer, a rank is taken for lost


def launched_count() -> int:
    """Return the number of processes (ranks) that were started together; 1 without a launcher."""
    # A stray WORLD_SIZE, as in some cluster's environment, is no launcher.
    launched = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    return _number("WORLD_SIZE", 1) if launched else 1


def launched_rank() -> int:
    """Return the number of this process, from 0."""
    return _number("RANK", 0) if launched_count() > 1 else 0


def local_rank() -> int:
    """Return the number of this process on its machine, from 0."""
    return _number("LOCAL_RANK", launched_rank())


def local_count() -> int:
    """Return the number of processes on this machine."""
    return _number("LOCAL_WORLD_SIZE", launched_count())


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default
