"""Read JSON that may be damaged or hostile: every fault in it raises ValueError."""

import json
import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from tnlpad.regular_files import open_regular

MAX_DEPTH, MAX_BYTES = 100, 1 << 28
NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\[\]{}"]+', re.DOTALL)


def load_json(path: Path, *, finite: bool = False) -> Any:
    """Return the value of a JSON file; see `parse_json`.

    Raises:
        OSError: The file cannot be read, or is not a regular one.
        ValueError: It is not JSON, too large, or nested too deeply.
    """
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes, and at most {MAX_BYTES:,} are read")
        return parse_json(file.read(), finite=finite)


def parse_json(content: bytes | str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        content: The text; bytes may be in UTF-8, UTF-16 or UTF-32.
        finite: Refuse NaN and Infinity, which Python writes although JSON has neither.

    Raises:
        ValueError: It is not JSON, or nested so deeply that readers would run out of stack.
    """
    text = content if isinstance(content, str) else content.decode(json.detect_encoding(content))
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ValueError(f"it is nested too deeply: more than {MAX_DEPTH} brackets are open at once")
    return json.loads(text, parse_constant=_refuse_constant if finite else None)


def _depth(text: str) -> int:
    """Return how many brackets are open at most, whether or not they match."""
    steps = (1 if bracket in "[{" else -1 for bracket in NO_BRACKETS.sub("", text) if bracket != '"')
    return max(accumulate(steps), default=0)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")
