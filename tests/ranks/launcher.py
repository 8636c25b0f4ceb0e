"""Start a module on several ranks, as torchrun does."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# What another try avoids: between finding a free port and using it, another test may take it; and on a busy machine,
# threads of gloo sometimes abort a process that ends.
BAD_LUCK = ("EADDRINUSE", "terminate called without an active exception")
Finished = subprocess.CompletedProcess[str]


def torchrun(*arguments: object, ranks: int = 2, timeout: float = 240, **options: Any) -> Finished:
    """Run `python -m ARGUMENTS` on some ranks and return what it printed, also if it failed; see `tried`."""
    run = partial(subprocess.run, cwd=ROOT, timeout=timeout, capture_output=True, text=True, **options)
    return tried(lambda: run(command(*arguments, ranks=ranks)))


def tried(launch: Callable[[], Finished]) -> Finished:
    """Launch ranks, and once more after bad luck."""
    done = launch()
    return launch() if done.returncode and any(words in done.stderr for words in BAD_LUCK) else done


def succeeded(*arguments: object, **options: Any) -> Finished:
    """Run it and require success."""
    done = torchrun(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def command(*arguments: object, ranks: int = 2) -> list[str]:
    """Return the command line of torchrun."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*launcher, "-m", *map(str, arguments)]
