import re
from pathlib import Path

import tnlpad

ROOT = Path(__file__).parents[1]


def test_every_public_name_resolves():
    assert len(tnlpad.__all__) >= 4
    for name in tnlpad.__all__:
        assert getattr(tnlpad, name) is not None
    assert set(dir(tnlpad)) == set(tnlpad.__all__)


def test_the_citation_and_the_changelog_name_the_version():
    (cited,) = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert cited == newest == tnlpad.__version__
