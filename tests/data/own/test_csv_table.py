import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.csv_table import TextForm, read_csv


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
    with pytest.raises(DataError, match=r"what makes the most columns .* commas make as many as semicolons.*`sep=,`"):
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
        ("Käse", "latin-1", r"UTF-8 \(invalid continuation byte at byte 11"),
        ("x", "utf-16-le", r"UTF-8 \(it has zero bytes"),
        ("x", "utf-32", r"UTF-8 \(it has zero bytes"),
    ],
)
def test_text_that_is_of_another_encoding(tmp_path, label, encoding, reason):
    path = written(tmp_path / "x.csv", f"a,label\n1,{label}\n", encoding)
    with pytest.raises(DataError, match=rf"not a text file in {reason}.*Save it as UTF-8"):
        read_csv(path)


def test_text_that_is_not_what_it_announces(tmp_path):
    (tmp_path / "x.csv").write_bytes("a,label\n1,x\n".encode("utf-16") + b"\n")
    with pytest.raises(DataError, match=r"not a text file in UTF-16, which its first bytes announce \(truncated data"):
        read_csv(tmp_path / "x.csv")
