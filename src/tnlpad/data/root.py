"""Where datasets live when nobody says: $TNLPAD_DATA, else a folder of the user's cache, by the platform's custom."""

import os
import sys
from pathlib import Path


def default_root() -> Path:
    """The folder that holds all datasets; it need not exist yet."""
    chosen = os.environ.get("TNLPAD_DATA")
    return Path(chosen).expanduser() if chosen else _user_cache() / "tnlpad" / "data"


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) if base else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path is invalid and must be ignored.
    return Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
