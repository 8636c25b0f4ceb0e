"""Compiled code is made once: by the first of several runs of a kind, for those after it and for those beside it.

A worker's next run takes over what its last one compiled. And of processes that start together one goes ahead, on all
cores, while the others wait: they find its kernels in torch's cache on disk. Without that twenty of them would compile
the same kernels twenty times over.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.executors import available_cores

# What decides over the kernels of a step: runs that agree in it differ only in their numbers.
COMPILED_BY = (
    *("dataset", "subset", "method", "network", "batch_size", "precision", "compiled", "stem_padding"),
    *("validation", "validation_fraction", "resize", "crop", "crop_padding", "flip", "cutout"),
)
_compiled_for: tuple[Any, ...] = ()


@contextmanager
def compiling(config: RunConfig) -> Iterator[Callable[[], None]]:
    """A block that compiles; call what it is given as soon as everything is compiled, which lets the others begin."""
    global _compiled_for
    kind = tuple(getattr(config, name) for name in COMPILED_BY)
    if kind == _compiled_for or not config.compiled:
        yield lambda: None
        return
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # torch compiles a function for a handful of shapes and then, silently, no more
    _compiled_for = kind
    lock = _lock(kind)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with lock:  # wait for who is ahead, or for its end
            pass
        yield lambda: None
        return
    from torch._inductor import config as inductor

    try:
        with inductor.patch(compile_threads=available_cores()):
            yield lock.release
    finally:
        lock.release()


def _lock(kind: tuple[Any, ...]) -> FileLock:
    """In the folder where torch keeps what it compiled, or beside it."""
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    user = os.getuid() if hasattr(os, "getuid") else ""  # people share the folder, and not its locks
    name = sha256(repr((torch.__version__, kind)).encode()).hexdigest()[:16]
    return FileLock(folder / f"tnlpad-compiling-{user}-{name}.lock")
