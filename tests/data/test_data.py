from pathlib import Path

import pytest

import tnlpad.data


def test_public_names_resolve_and_none_is_a_module():
    modules = {path.stem for path in Path(tnlpad.data.__file__).parent.glob("*.py")}
    for name in tnlpad.data.__all__:
        assert getattr(tnlpad.data, name) is not None
        assert name not in modules
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = tnlpad.data.lod
