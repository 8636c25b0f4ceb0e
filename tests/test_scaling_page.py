"""docs/scaling.md shows what the records and the assumptions give."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_its_records_give():
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "docs" / "scaling.py")
    scaling = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scaling)
    text = scaling.PAGE.read_text()
    assert scaling.page(text, *scaling.records()) == text, "python docs/scaling.py writes it again"
