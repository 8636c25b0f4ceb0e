import datetime
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tnlpad.data.own.arrow_tables import arrow_columns, joined, parquet_file, parquet_table
from tnlpad.data.own.tables import TextForm, read_csv, read_jsonl
from tnlpad.data.own.workbooks import read_workbook
from tnlpad.errors import DataError


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,label\n1,x\n2,y\n", ","),
        ("a;label\r\n1;x\r\n2;y\r\n", ";"),
        ("a\tlabel\r1\tx\r2\ty", "\t"),
        ("a|label\n1|x\n2|y\n", "|"),
        ('"a","label"\n"1","x"\n"2","y"\n', ","),
        ("\n  \na,label\n\n1,x\n,\n2,y\n\n", ","),
        ("sep=;\na;label\n1;x\n2;y\n", ";"),
        ("SEP=,\na,label\n1,x\n2,y\n", ","),
        (" a ,label \n1,x\n2,y\n", ","),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_same_table_in_other_words(tmp_path, text, separator, encoding):
    columns, form = read_csv(written(tmp_path / "x.csv", text, encoding))
    assert columns == {"a": ["1", "2"], "label": ["x", "y"]}
    assert form == TextForm(encoding=encoding, separator=separator)


def test_either_order_of_bytes_that_is_announced(tmp_path):
    for encoding in ("utf-16-le", "utf-16-be"):
        path = written(tmp_path / f"{encoding}.csv", "\ufeffa\tlabel\r\n1\tKäse\r\n", encoding)
        assert read_csv(path)[0] == {"a": ["1"], "label": ["Käse"]}


def test_what_makes_the_most_columns_separates_them(tmp_path):
    text = "name, first;weight;label\nDoe, J;1;x\n"
    assert list(read_csv(written(tmp_path / "x.csv", text))[0]) == ["name, first", "weight", "label"]


def test_where_two_make_as_many_the_rule_is_named_and_a_line_decides(tmp_path):
    text = "a;b,label\n1;2,x\n"
    with pytest.raises(DataError, match=r"commas and semicolons split the header .*`sep=,`"):
        read_csv(written(tmp_path / "x.csv", text))
    assert list(read_csv(written(tmp_path / "x.csv", f"sep=;\r\n{text}"))[0]) == ["a", "b,label"]
    assert list(read_csv(written(tmp_path / "x.csv", f'"sep=,"\n{text}'))[0]) == ["a;b", "label"]


def test_the_fields_of_a_single_column_may_hold_any_of_them(tmp_path):
    assert read_csv(written(tmp_path / "x.csv", "path\na,b;c|d.png\n"))[0] == {"path": ["a,b;c|d.png"]}


def test_fields_may_hold_separators_quotes_and_ends_of_lines(tmp_path):
    text = '"a,b,c";"two\nlines";label\n1;2;"say ""x"""\n3;4;"y;\nz"\n'
    assert read_csv(written(tmp_path / "x.csv", text))[0] == {
        "a,b,c": ["1", "3"],
        "two\nlines": ["2", "4"],
        "label": ['say "x"', "y;\nz"],
    }


def test_quotes_that_nothing_calls_for(tmp_path):
    text = 'text,label\na "quoted" word,x\n"a" word,x\n"b" ,"y"\n5" pipe,y\n"two\nlines",y'
    assert read_csv(written(tmp_path / "x.csv", text))[0] == {
        "text": ['a "quoted" word', "a word", "b ", '5" pipe', "two\nlines"],
        "label": ["x", "x", "y", "y", "y"],
    }


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blanks_between_a_quote_of_several_lines_and_the_separator(tmp_path, separator, end):
    rows = [("id", "text", "label"), ("0", f'"good ""words""{end}second" ', "a"), ('5" x', f'"b{end}b"', '"a"  ')]
    path = tmp_path / "x.csv"
    path.write_bytes(end.join(separator.join(row) for row in rows).encode())
    columns, _ = read_csv(path)
    assert columns["text"] == [f'good "words"{end}second ', f"b{end}b"]
    assert columns["label"] == ["a", "a  "]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x\.csv is empty: its first line must name the columns, such as `path,label`"),
        ("\n \n", "is empty"),
        (",,\n1,2,x\n", "its first line must name the columns"),
        ("a,label\n1,2,3\n", "line 2: 3 fields, but 2 columns"),
        ('a,b,label\n"1,2,x\n3,4,y\n', "quotes do not match in the row from line 2 on .* Is a quote not closed"),
        ('a,label\n1,"x\n2,x\n3,y', "quotes do not match in the row from line 2 on"),
        ('a,label\n1,x\n2,"x', "quotes do not match in the row from line 3 on"),
        ('a,label\n1,"x\n2,"x"\n3,y\n', "quotes do not match in the row from line 2 on"),
        ("a,label\n1," + "x" * (1 << 21), "cannot be read as CSV: field larger than .* Is a quote not closed"),
        (
            "a,a,label\n1,2,3\n",
            "two columns of the same name: a, a, label. Rename one",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_csv(written(tmp_path / "x.csv", text))


@pytest.mark.parametrize(
    ("label", "encoding", "reason"),
    [
        ("Käse", "latin-1", r"UTF-8 \(invalid continuation byte at byte 11"),
        ("x", "utf-16-le", r"UTF-8 \(it contains zero bytes"),
        ("x", "utf-32", r"UTF-8 \(it contains zero bytes"),
    ],
)
def test_text_that_is_of_another_encoding(tmp_path, label, encoding, reason):
    path = written(tmp_path / "x.csv", f"a,label\n1,{label}\n", encoding)
    with pytest.raises(DataError, match=rf"not a text file in {reason}.*Save it as UTF-8"):
        read_csv(path)


def test_text_that_is_not_what_it_announces(tmp_path):
    (tmp_path / "x.csv").write_bytes("a,label\n1,x\n".encode("utf-16") + b"\n")
    with pytest.raises(DataError, match=r"not a text file in UTF-16, .* \(truncated data"):
        read_csv(tmp_path / "x.csv")


def test_columns_of_every_kind():
    columns = arrow_columns(
        pa.table(
            {
                "whole": [1, 2],
                "gaps": pa.array([None, 2]),
                "names": pa.array(["x", "y"]).dictionary_encode(),
                "text as bytes": [b"x", b"\xc3\xa4"],
                "bytes": [b"x", b"\xff"],
            }
        ),
        "table",
    )
    assert isinstance(columns["whole"], np.ndarray)
    assert columns["gaps"] == [None, 2]
    assert columns["names"] == ["x", "y"]
    assert columns["text as bytes"] == ["x", "ä"]
    assert columns["bytes"] == [b"x", b"\xff"]


@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_bytes_that_are_no_table(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    for read in (parquet_file, parquet_table):
        with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
            read(tmp_path / "x.parquet")


def test_a_name_stands_for_one_column(tmp_path):
    twice = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([0])], names=["a", "a", "label"])
    pq.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(DataError, match="two columns of the same name: a, a, label"):
        parquet_table(tmp_path / "x.parquet")


def test_tables_of_different_data_do_not_go_together(tmp_path):
    tables = [pa.table({"a": [1.0]}), pa.table({"a": ["b"]})]
    with pytest.raises(DataError, match=r"its tables have different columns .* Name one of the files"):
        joined(tables, tmp_path)


def test_a_file_that_is_damaged_in_the_middle(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [float(row) for row in range(1000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
        parquet_table(path)


@pytest.mark.parametrize(
    "column",
    [
        pa.StringArray.from_buffers(1, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")),
        pa.array([1 << 60], pa.timestamp("s")),
        pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["x"]), safe=False),
    ],
)
def test_values_that_python_cannot_hold(column):
    with pytest.raises(DataError, match=r"table: a value in column 'a' cannot be read: .* Correct it"):
        arrow_columns(pa.table({"a": column}), "table")


def test_a_json_object_per_line(tmp_path):
    lines = [
        '{"text": "Käse", "n": 1, "e": [1, 2]}',
        "",
        '{"n": null, "text": "b", "more": true}',
        '{"text": "\\ud800"}',
    ]
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        columns = read_jsonl(written(tmp_path / "x.jsonl", "\n".join(lines), encoding))
        assert columns == {
            "text": ["Käse", "b", "?"],
            "n": [1, None, None],
            "e": [[1, 2], None, None],
            "more": [None, True, None],
        }
        assert columns["n"].lines == [1, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: each line must be a JSON object"),
        ('{"a": 1}\n{"a": 2', r"x\.jsonl, line 2: this is not JSON"),
        ("[1]", "line 1: this is a JSON list, not an object"),
        ("[" * 100_000, "line 1: this is not JSON"),
        ('{"a": 1, " a": 2}', "line 1: two fields have the same name"),
    ],
)
def test_lines_that_are_no_json_objects(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_jsonl(written(tmp_path / "x.jsonl", text))


def test_json_lines_in_an_unknown_encoding(tmp_path):
    with pytest.raises(DataError, match=r"not a text file in UTF-8 .*Save it as UTF-8"):
        read_jsonl(written(tmp_path / "x.jsonl", '{"a": "Käse"}', "latin-1"))


def workbook(path, *sheets):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install 'tnlpad[tables]'")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_the_first_sheet_of_a_workbook(tmp_path):
    day = datetime.datetime(2024, 1, 2)
    rows = [[], ["a", " label ", "day", None], [1.5, "x", day], [], [None, "y", day, " "], [3, "=1+1", None]]
    columns, notes = read_workbook(workbook(tmp_path / "x.xlsx", rows, [["other"]]))
    assert columns == {"a": [1.5, None, 3], "label": ["x", "y", None], "day": [day, day, None]}
    assert columns["a"].lines == [3, 5, 6]
    assert notes == ("of the workbook, the sheet 'sheet 0' is read, not sheet 1.",)


def test_workbooks_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="is empty: the first row of its first sheet"):
        read_workbook(workbook(tmp_path / "x.xlsx", []))
    with pytest.raises(DataError, match="two columns of the same name"):
        read_workbook(workbook(tmp_path / "x.xlsx", [["a", "a"], [1, 2]]))
    with pytest.raises(DataError, match=r"x\.xlsx cannot be read as an \.xlsx file: .*Save it again, or as CSV"):
        read_workbook(written(tmp_path / "x.xlsx", "a,label"))
    with pytest.raises(DataError, match="cannot be read"):
        read_workbook(tmp_path / "nowhere.xlsx")
    path = workbook(tmp_path / "y.xlsx", [["a"], [1]])
    monkeypatch.setattr("tnlpad.data.own.workbooks.MAX_WORKBOOK_BYTES", 1000)
    with pytest.raises(DataError, match=r"unpacks to [\d,]+ bytes, more than 1,000"):
        read_workbook(path)


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"openpyxl, .* is not installed: pip install 'tnlpad\[tables\]'. Or .* CSV"):
        read_workbook(tmp_path / "x.xlsx")


FOOTERS = """
import sys
from pathlib import Path

from tnlpad.data.own.arrow_tables import parquet_table
from tnlpad.errors import DataError

path = Path(sys.argv[1])
content = path.read_bytes()
end = len(content) - 8
for place in range(end - int.from_bytes(content[end : end + 4], "little"), end):
    path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
    try:
        parquet_table(path)
    except DataError:
        pass
"""


def test_no_damage_to_a_footer_ends_the_process(tmp_path):
    """An exception in the descriptions of columns does, if pyarrow meets it outside of reading."""
    columns = {"text": ["a", None, "c"] * 4, "x": [1.5, None, 2.0] * 4}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    done = subprocess.run([sys.executable, "-c", FOOTERS, tmp_path / "x.parquet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
