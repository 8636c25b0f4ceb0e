import csv
import io

from tnlpad.report.table import StackedCell, Table, to_csv

TABLE = Table(
    title="Results",
    note="In percent.",
    headings=["method", "a_b", "c | d"],
    align="lrr",
    rows=[
        ["Standard", StackedCell(text="99.0 ± 0.1", mark="≈", below="98.8", bold=True), StackedCell(text="·")],
        ["CDR", "95.0", ""],
    ],
)


def test_markdown():
    assert TABLE.to_markdown(2) == (
        "## Results\n\nIn percent.\n\n"
        "| method | a_b | c \\| d |\n"
        "| --- | ---: | ---: |\n"
        "| Standard | **99.0 ± 0.1** ≈<br>98.8 | · |\n"
        "| CDR | 95.0 |  |\n"
    )
    assert TABLE.to_markdown().startswith("| method |")


def test_csv_joins_lists_and_leaves_none_empty():
    text = to_csv([{"a": [1, 2], "b": None}, {"a": [], "b": "x, y"}])
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1 2", "b": ""}, {"a": "", "b": "x, y"}]
