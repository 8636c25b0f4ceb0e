import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.csv_table import read_csv


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "a,label\n1,x\n2,y\n",
        "a;label\r\n1;x\r\n2;y\r\n",
        "a\tlabel\r1\tx\r2\ty",
        "\ufeffa,label\n1,x\n2,y\n",
        '"a","label"\n"1","x"\n"2","y"\n',
        "\n  \na,label\n\n1,x\n,\n2,y\n\n",
        "sep=;\na;label\n1;x\n2;y\n",
        "SEP=,\na,label\n1,x\n2,y\n",
        " a ,label \n1,x\n2,y\n",
    ],
)
def test_the_same_table_in_other_words(tmp_path, text):
    assert read_csv(written(tmp_path / "x.csv", text)) == {"a": ["1", "2"], "label": ["x", "y"]}


def test_fields_may_hold_separators_quotes_and_ends_of_lines(tmp_path):
    text = '"a,b,c";"two\nlines";label\n1;2;"say ""x"""\n3;4;"y;\nz"\n'
    assert read_csv(written(tmp_path / "x.csv", text)) == {
        "a,b,c": ["1", "3"],
        "two\nlines": ["2", "4"],
        "label": ['say "x"', "y;\nz"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x\.csv is empty: its first line must name the columns, such as `path,label`"),
        ("\n \n", "is empty"),
        (",,\n1,2,x\n", "its first line must name the columns"),
        ("a,label\n1,2,3\n", "line 2: 3 fields, and the first line names 2 columns. Fill the line in"),
        ('a,b,label\n"1,2,x\n3,4,y\n', "line 3: 1 fields, .* Is a quote not closed"),
        ("a,label\n1," + "x" * (1 << 21), "cannot be read as CSV: field larger than .* Is a quote not closed"),
        (
            "a,a,label\n1,2,3\n",
            "two columns of one name: they are a, a, label. Rename one; or if these are a row of data",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_csv(written(tmp_path / "x.csv", text))


@pytest.mark.parametrize(
    ("label", "encoding", "reason"),
    [
        ("Käse", "latin-1", "invalid continuation byte at byte 11"),
        ("x", "utf-16", "invalid start byte at byte 0"),
        ("x", "utf-16-le", "it has zero bytes"),
    ],
)
def test_text_that_is_not_utf8(tmp_path, label, encoding, reason):
    path = written(tmp_path / "x.csv", f"a,label\n1,{label}\n", encoding)
    with pytest.raises(DataError, match=rf"not a text file in UTF-8 \({reason}.*Save it as UTF-8"):
        read_csv(path)
