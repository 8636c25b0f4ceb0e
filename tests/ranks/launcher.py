"""Start a module on several ranks, as torchrun does."""

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Finished = subprocess.CompletedProcess[str]


def torchrun(*arguments: object, ranks: int = 2, timeout: float = 240, **options: Any) -> Finished:
    """Run `python -m ARGUMENTS` on some ranks and return what it printed, also if it failed.

    Tried twice: between finding a free port and using it, another test may take it.
    """
    for _ in range(2):
        done = subprocess.run(
            command(*arguments, ranks=ranks), cwd=ROOT, timeout=timeout, capture_output=True, text=True, **options
        )
        if "EADDRINUSE" not in done.stderr:
            break
    return done


def succeeded(*arguments: object, **options: Any) -> Finished:
    """Run it and require success."""
    done = torchrun(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def command(*arguments: object, ranks: int = 2) -> list[str]:
    """Return the command line of torchrun."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*launcher, "-m", *map(str, arguments)]
