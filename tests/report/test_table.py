import csv
import io

from tnlpad.report.table import StackedCell, Table, folded, markdown_code, to_csv

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


def test_names_of_strangers_stay_within_their_cell():
    name = "a\\|b <img src=x>\n# heading & more"
    table = Table(title=name, headings=[name], align="l", rows=[[name], [StackedCell(text=name, below="1|2")]])
    text = table.to_markdown(1)
    assert len(text.splitlines()) == 6
    assert "<img" not in text
    assert text.splitlines()[4] == r"| a\\\|b &lt;img src=x> # heading &amp; more |"
    assert text.splitlines()[5] == r"| a\\\|b &lt;img src=x> # heading &amp; more<br>1\|2 |"


def test_names_of_strangers_are_neither_links_nor_images():
    names = ["[x](javascript:alert(1))", "![](http://127.0.0.1)", r"\[x](a)", "[x][y]"]
    for name in names:
        table = Table(title=name, note=name, headings=[name], align="l", rows=[[name], [StackedCell(text=name)]])
        for text in (table.to_markdown(1), folded(name, "body")):
            assert "[" not in text
            assert "&#91;" in text


def test_code_is_fenced_by_more_backticks_than_it_has():
    assert markdown_code("tnlpad x") == "`tnlpad x`"
    assert markdown_code("a `b`\nc") == "``a `b` c``"
