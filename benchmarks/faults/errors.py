"""Tell errors that the project promises from all others."""

import linecache
import os
import sys
import traceback
from pathlib import Path

import tnlpad

ROOT = Path(__file__).parents[2]
PACKAGE = f"{Path(tnlpad.__file__).parent}{os.sep}"  # a checkout of the same name also holds the libraries in .venv
LINES_SHOWN = 14


def is_ours(error: BaseException) -> bool:
    """Return whether the project promises an error: one of its own kinds, or a ValueError that it raises itself."""
    from tnlpad.errors import DataError, NoiseDataError
    from tnlpad.records.store import RecordError
    from tnlpad.training.checkpoint import CheckpointError

    if isinstance(error, (DataError, NoiseDataError, RecordError, CheckpointError)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise ")
    return type(error) is ValueError and last.filename.startswith(PACKAGE) and raised


def brief(error: BaseException) -> str:
    """Return the kind of an error and the last line of the project that it passed."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    place = f"{ours[-1].filename.removeprefix(PACKAGE)}:{ours[-1].lineno} {ours[-1].name}" if ours else "outside"
    return f"{type(error).__name__} at {place}"


def traced(error: BaseException) -> str:
    """Return the end of the traceback of an error, without the place of the checkout and of the libraries."""
    text = "".join(traceback.format_exception(error))
    for place in (str(ROOT), sys.prefix, sys.base_prefix):
        text = text.replace(f"{place}{os.sep}", "")
    lines = text.splitlines()
    return "\n".join(line[:200] for line in lines[-LINES_SHOWN:])
