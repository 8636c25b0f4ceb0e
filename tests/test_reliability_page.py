"""docs/reliability.md shows what the record of the last soak gives."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_its_record_gives():
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "docs" / "reliability.py")
    reliability = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reliability)
    text, record = reliability.PAGE.read_text(), json.loads(reliability.RECORD.read_text())
    assert reliability.page(text, record) == text, "python docs/reliability.py writes it again"
