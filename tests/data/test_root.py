import os
import sys
from pathlib import Path

from tnlpad.data.root import default_root


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("TNLPAD_DATA", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("TNLPAD_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "tnlpad" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # invalid by the specification
    assert default_root() == Path.home() / ".cache" / "tnlpad" / "data"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_root() == Path.home() / "Library" / "Caches" / "tnlpad" / "data"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", os.fspath(tmp_path))
    assert default_root() == tmp_path / "tnlpad" / "data"
