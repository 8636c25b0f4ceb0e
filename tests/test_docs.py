"""Pages with numbers are generated: what is committed must be what the records give."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_performance_page_is_what_the_records_give():
    spec = importlib.util.spec_from_file_location("performance", ROOT / "docs" / "performance.py")
    performance = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(performance)
    for benchmark in ("optimizer_step", "loader"):
        devices = {record["device"] for record in performance.records(benchmark)}
        assert devices == {"cpu", "cuda"}, f"{benchmark} is measured on {devices}"
    assert performance.PAGE.read_text() == performance.page()
